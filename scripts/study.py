"""The tiny study: recipes from one init on Sokoban, tuned, stable and aggressive, three seeds each.

    python scripts/study.py [--recipes a,b,...] [--seeds 0,1,2] [--parallel 2] [--out DIR]

Every run is `arlarena-bench train` in a process of its own and resumes where it was stopped; runs
that are finished are not made again. Afterwards the logs, a table, curves and a page are written to
baselines/results/sokoban-tiny/.
"""

import argparse
import statistics
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmark.training_log import LOG, read_training_log
from tasks.errors import UserError

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "baselines" / "results" / "sokoban-tiny"
RECIPES = (
    "grpo",
    "sapo",
    "sapo_sm",
    "cispo",
    "cispo_sm",
    "gspo",
    "gigpo",
    "dapo_grpo",
    "sampo",
)
"""The most telling ones; `--recipes all` runs every one."""
GRID = (1.0e-4, 3.0e-4, 1.0e-3)
"""Learning rates that are tried for every recipe in the stable setting."""
TUNING_SEED = 1000
TUNING_UPDATES = 8
TUNING_LAST = 4
"""Updates whose rollouts decide between learning rates. Tuning never looks at the panel."""
STABLE = ("optimisation.updates=24", "validation.every=6")
AGGRESSIVE = (
    "optimisation.updates=15",
    "validation.every=3",
    "optimisation.learning_rate=5e-4",
    "optimisation.epochs=2",
    "optimisation.warmup_updates=0",
    "kl.coef=0",
)
"""No distance to the init, two passes over every rollout, a high rate for all recipes alike."""


@dataclass(frozen=True, slots=True)
class Run:
    """One training run of the study.

    Attributes:
        setting: `tuning`, `stable` or `aggressive`.
        recipe: Its recipe.
        seed: Its seed.
        settings: What is set beside the scale `tiny`.
    """

    setting: str
    recipe: str
    seed: int
    settings: tuple[str, ...]

    def folder(self, out: Path) -> Path:
        """Where it is made."""
        rate = next((s.partition("=")[2] for s in self.settings if "learning_rate" in s), "default")
        return out / self.setting / f"{self.recipe}-{rate}-s{self.seed}"

    @property
    def updates(self) -> int:
        """Updates that it has when it is finished."""
        (found,) = (s for s in self.settings if s.startswith("optimisation.updates="))
        return int(found.partition("=")[2])

    def finished(self, out: Path) -> bool:
        """Whether its log is complete, the last validation included."""
        path = self.folder(out) / LOG
        if not path.exists():
            return False
        log = read_training_log(path, allow_torn=True)
        if not log.updates or log.updates[-1].update != self.updates:
            return False
        validated = "validation.every=null" not in self.settings
        return not validated or log.validations[-1].update == self.updates

    def command(self, out: Path) -> list[str]:
        """What makes it."""
        command = [sys.executable, "-m", "benchmark.cli", "train", "--recipe", self.recipe]
        command += ["--init", "tiny-sokoban", "--task", "sokoban", "--scale", "tiny"]
        command += ["--seed", str(self.seed), "--out", str(self.folder(out))]
        for setting in self.settings:
            command += ["--set", setting]
        return command


def tuning(recipes: Sequence[str]) -> list[Run]:
    """The runs that decide on learning rates."""
    return [
        Run(
            "tuning",
            recipe,
            TUNING_SEED,
            (
                f"optimisation.updates={TUNING_UPDATES}",
                "validation.every=null",
                f"optimisation.learning_rate={rate:g}",
            ),
        )
        for recipe in recipes
        for rate in GRID
    ]


def tuned_rate(recipe: str, out: Path) -> float:
    """The rate with the highest success in its last rollouts; of equals the lower one."""
    best: tuple[float, float] | None = None
    for run, rate in zip(tuning([recipe]), GRID, strict=True):
        if not run.finished(out):
            raise UserError(f"{run.folder(out)} is not finished: run the tuning first")
        curve = read_training_log(run.folder(out) / LOG).series("rollout/success")
        found = statistics.fmean(v for v in curve[-TUNING_LAST:] if v is not None)
        if best is None or found > best[0]:
            best = found, rate
    assert best is not None
    return best[1]


def aggressive(recipes: Sequence[str], seeds: Sequence[int]) -> list[Run]:
    """The runs that are meant to collapse where a method lets them."""
    return [Run("aggressive", recipe, seed, AGGRESSIVE) for seed in seeds for recipe in recipes]


def stable(recipes: Sequence[str], seeds: Sequence[int], out: Path) -> list[Run]:
    """The runs at tuned rates; the tuning comes first."""
    return [
        Run(
            "stable",
            recipe,
            seed,
            (*STABLE, f"optimisation.learning_rate={tuned_rate(recipe, out):g}"),
        )
        for seed in seeds
        for recipe in recipes
    ]


def final(recipes: Sequence[str], seeds: Sequence[int], out: Path) -> list[Run]:
    """The runs that are shown."""
    return [*aggressive(recipes, seeds), *stable(recipes, seeds, out)]


def make(runs: Sequence[Run], out: Path, parallel: int) -> None:
    """Make the runs that are not finished, some at a time."""
    missing = [run for run in runs if not run.finished(out)]
    done = len(runs) - len(missing)
    print(f"{len(runs)} runs, {done} of them finished", flush=True)

    def one(run: Run) -> tuple[Run, int]:
        folder = run.folder(out)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "output.txt").open("ab") as output:
            process = subprocess.run(  # noqa: S603 - our own command
                run.command(out), stdout=output, stderr=subprocess.STDOUT, check=False, cwd=ROOT
            )
        return run, process.returncode

    with ThreadPoolExecutor(parallel) as pool:
        for run, code in pool.map(one, missing):
            done += 1
            outcome = "finished" if code == 0 else f"failed with exit code {code}"
            print(f"{done} of {len(runs)}: {run.folder(out)} {outcome}", flush=True)


def main() -> int:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recipes", default=",".join(RECIPES), help="names, or all")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--parallel", type=int, default=2, help="runs at a time (default: 2)")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "study-sokoban")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the page")
    parser.add_argument(
        "--only", choices=("tuning", "stable", "aggressive", "page"), help="one part only"
    )
    arguments = parser.parse_args()
    from baselines.recipes import RECIPES as FOLDER
    from baselines.recipes import names

    known = names(FOLDER)
    named = dict.fromkeys(arguments.recipes.split(","))
    recipes = known if arguments.recipes == "all" else tuple(named)
    for recipe in recipes:
        if recipe not in known:
            print(f"study: there is no recipe {recipe!r}", file=sys.stderr)
            return 2
    seeds = sorted({int(seed) for seed in arguments.seeds.split(",")})
    only, out, parallel = arguments.only, arguments.out, arguments.parallel
    try:
        if only in (None, "aggressive"):
            make(aggressive(recipes, seeds), out, parallel)
        if only in (None, "tuning"):
            make(tuning(recipes), out, parallel)
        if only in (None, "stable"):
            make(stable(recipes, seeds, out), out, parallel)
        if only in (None, "page"):
            from scripts.study_page import write_results

            write_results(recipes, seeds, out, arguments.results)
    except UserError as error:
        print(f"study: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
