"""How alike honest runs are: `python -m tests.benchmarks.scripts.likeness [RECORDS ...]`.

Compares every two files of records of different weights on one panel as the check of copies does,
whatever their log-probabilities say, and prints the highest shares and how many pairs reach its
limit. By default, all entries in `submissions/` and all studies in `baselines/results/`. Records of
older schemas are read as well. Of several equal files all but one are left out; runs of an init are
counted apart, since any run may be like an earlier one of them. Then how many episodes have equal
answers and log-probabilities, and what models have in common with policies, by answers and actions
alone. Last, in how many pairs of training logs numbers rise and fall together, and how many logs
are found again with noise on all of their numbers.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby, islice, permutations
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from benchmark.archive import read_at_most
from benchmark.logs.training_log import read_training_log
from benchmark.stats.intervals import wilson
from benchmark.submissions.checks.accepted_entries import Traces, trace_of
from benchmark.submissions.checks.copies import equal_traces
from benchmark.submissions.plays.likeness import ALIKE_SHARE, FEWEST_ALIKE, Likeness
from benchmark.submissions.plays.play_hash import EpisodeKey, PlayHash
from benchmark.submissions.training_logs.changes import Changes, alike_changes, copied_changes

ROOT = Path(__file__).parents[3]
PanelOf = tuple[Path, tuple[str, str]]
"""A file of records, with a task and panel: the check compares each panel by itself, too."""
SHOWN = 10
NOISE = (0.001, 0.01, 0.03, 0.1)
SHOWN_OF_TASK = 2


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runs: of their common episodes, and of the failures, how many went alike."""

    files: tuple[Path, Path]
    task: str
    found: Likeness

    @property
    def alike(self) -> float:
        """Share of the episodes."""
        return self.found.alike / max(1, self.found.common)

    @property
    def alike_failures(self) -> float:
        """Share of the first one's failures."""
        return self.found.alike_failed / max(1, self.found.failed)


def main() -> None:
    """Compare all pairs."""
    parser = argparse.ArgumentParser(description="How alike honest runs are.")
    parser.add_argument("records", nargs="*", type=Path)
    files = parser.parse_args().records or [
        *sorted(ROOT.glob("submissions/*/runs/*/episodes.jsonl.zst")),
        *sorted(ROOT.glob("baselines/results/*/*.episodes.jsonl.zst")),
    ]
    runs: dict[PanelOf, dict[EpisodeKey, PlayHash]] = {}
    policies: dict[PanelOf, dict[EpisodeKey, PlayHash]] = {}
    traces: dict[Path, Traces] = {}
    for file in files:
        plays, traces[file], is_policy = _plays(file)
        group = policies if is_policy else runs
        for panel in sorted({key[:2] for key in plays}):
            part = {key: play for key, play in plays.items() if key[:2] == panel}
            if part not in group.values():
                group[file, panel] = part
    pairs = [
        pair
        for ((one, _), mine), ((other, _), theirs) in combinations(runs.items(), 2)
        for pair in (_pair((one, other), mine, theirs), _pair((other, one), theirs, mine))
        if pair.found.common
    ]
    inits = [pair for pair in pairs if any(map(_is_init, pair.files))]
    _print("weights that were trained", [pair for pair in pairs if pair not in inits])
    _print("with an init", inits)
    _print_equal([traces[file] for file in dict.fromkeys(file for file, _ in runs)])
    _print_policies(runs, policies)
    _print_logs()


def _print_logs() -> None:
    """Of the logs of all entries, each once."""
    files = sorted(ROOT.glob("submissions/*/training/*.jsonl.zst"))
    logs = {file: Changes.of_log(read_training_log(file)) for file in files}
    found = [
        (alike / count, count, _name(one), _name(other))
        for (one, mine), (other, theirs) in combinations(logs.items(), 2)
        for alike, count in [alike_changes(mine, theirs) or (0, 0)]
        if count
    ]
    accused = sum(share > 0.5 for share, *_ in found)
    print(f"\n{len(found)} pairs of training logs, {accused} with most numbers alike; the highest:")
    for share, count, one, other in sorted(found, reverse=True)[:SHOWN_OF_TASK]:
        print(f"  {share:.1%} of {count}: {one} and {other}")
    draw = np.random.default_rng(0).standard_normal
    for noise in NOISE:
        caught = sum(
            copied_changes(
                Changes(its.names, its.values * (1 + noise * draw(its.values.shape))), its
            )
            is not None
            for its in logs.values()
        )
        print(f"  with {noise:.1%} noise on all numbers, {caught} of {len(logs)} copies are found")


def _print_equal(runs: Sequence[Traces]) -> None:
    """Over all pairs with common episodes, each both ways."""
    pairs = [(one, other) for one, other in permutations(runs, 2) if one.keys() & other.keys()]
    most = max(len(equal_traces(*pair)) for pair in pairs)
    print(f"\nequal answers and log-probabilities: in {len(pairs) // 2} pairs {most} at most")


def _print_policies(
    runs: Mapping[PanelOf, dict[EpisodeKey, PlayHash]],
    policies: Mapping[PanelOf, dict[EpisodeKey, PlayHash]],
) -> None:
    print("\nepisodes played as a policy plays them, and those solved:")
    found = []
    for (file, _), plays in runs.items():
        for (policy, _), theirs in policies.items():
            both = plays.keys() & theirs.keys()
            common = {key for key in both if plays[key].ended and theirs[key].ended}
            if len(common) < FEWEST_ALIKE:
                continue
            task = next(iter(common))[0] + (", init" if _is_init(file) else "")
            alike = sum(plays[key].acts_like(theirs[key]) for key in common) / len(common)
            solved = sum(plays[key].solved for key in common) / len(common)
            found.append((task, alike, solved, len(common), _name(file), _name(policy)))
    accused = sum(alike >= ALIKE_SHARE for _, alike, *_ in found)
    print(f"{len(found)} pairs, {accused} reach the limit of {ALIKE_SHARE:.0%}; the highest:")
    for _, pairs in groupby(sorted(found, reverse=True), key=itemgetter(0)):
        for task, alike, solved, count, file_name, policy_name in islice(pairs, SHOWN_OF_TASK):
            names = f"{file_name} and {policy_name}"
            print(f"  {task}: {alike:.1%} of {count}, {solved:.1%} solved: {names}")


def _print(what: str, pairs: Sequence[Pair]) -> None:
    compared = [pair for pair in pairs if pair.found.compared]
    tasks = sorted({pair.task for pair in compared})
    count, accused = len(compared) // 2, sum(pair.found.is_copy for pair in compared)
    print(f"\n{what}: {count} pairs, each both ways, on {', '.join(tasks) or 'nothing'}")
    if not compared:
        return
    print(f"taken for copies: {accused}, below {wilson(0, count).high:.1%} of the pairs if none")
    for share in ("alike", "alike_failures"):
        print(f"highest {share}:")
        ordered = sorted(compared, key=lambda pair: -getattr(pair, share))
        for pair in ordered[:SHOWN]:
            print(
                f"  {pair.alike:.1%} of {pair.found.common}, failures {pair.alike_failures:.1%} of "
                f"{pair.found.failed}: {pair.task}, {' and '.join(map(_name, pair.files))}"
            )


def _name(file: Path) -> str:
    return "/".join(file.parts[-4:])


def _is_init(file: Path) -> bool:
    """Whether records are of an init, by the manifest beside them or by a study's file name."""
    manifest = file.parent / "run.json"
    if manifest.exists():
        kind: str = json.loads(manifest.read_bytes())["model"]["kind"]
        return kind == "init"
    return file.name.startswith("init.") or file.parent.name == "init"


def _pair(
    files: tuple[Path, Path],
    mine: dict[EpisodeKey, PlayHash],
    theirs: dict[EpisodeKey, PlayHash],
) -> Pair:
    task = next((key[0] for key in mine.keys() & theirs.keys()), "")
    return Pair(files, task, Likeness.of(mine, theirs))


def _plays(file: Path) -> tuple[dict[EpisodeKey, PlayHash], Traces, bool]:
    """What was played, with the numbers, and whether by a policy: it has no log-probabilities."""
    content = read_at_most(file, 2**31) if file.suffix == ".zst" else file.read_bytes()
    records = [json.loads(line) for line in content.splitlines()]
    traces = {
        _key(record): trace_of((turn["response"], turn["log_prob"]) for turn in record["turns"])
        for record in records
    }
    plays = {_key(record): _play(record) for record in records}
    is_policy = all(turn["log_prob"] is None for record in records for turn in record["turns"])
    return plays, {key: trace for key, trace in traces.items() if trace}, is_policy


def _key(record: dict[str, Any]) -> EpisodeKey:
    return record["task"], record["panel"], record["episode"], record["repeat"]


def _shown(part: dict[str, Any]) -> str:
    name = "observation_hash" if "observation_hash" in part else "observation_sha256"
    return str(part[name])[:16]


def _play(record: dict[str, Any]) -> PlayHash:
    """As `Play.of`, of a record of any schema."""
    return PlayHash.made(
        [
            (turn["response"], turn["action"], turn["action_ok"], turn["info"])
            for turn in record["turns"]
        ],
        record["success"] and record["error"] is None,
        [_shown(each) for each in (record, *record["turns"])],
        bool(record["turns"]) and record["error"] is None,
    )


if __name__ == "__main__":
    main()
