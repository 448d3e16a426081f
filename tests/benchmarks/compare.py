"""Compares the ratios of a run of the benchmark tests with the committed ones.

    python -m tests.benchmarks.compare RUN.json
    python -m tests.benchmarks.compare --accept RUN.json RUN.json RUN.json ...

A ratio is the cost of ours over that of the test's reference. It has got worse if it is above the
committed one by more than its noise. Noise is measured: `--accept` takes several runs of one commit
and writes the median of each test's ratios and, as its noise, twice their largest distance from it,
as a share of it, but at least `LEAST_NOISE`: the largest of a few runs is not the largest that
there will be.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

COMMITTED = Path(__file__).parent / "ratios.json"
LEAST_NOISE = 0.1
FEWEST_RUNS = 3

Facts = Mapping[str, Any]
"""`reference`, `ratio`, and where it is committed `noise`."""


def read_run(path: Path) -> dict[str, Facts]:
    """What each test of a run measured."""
    return {
        one["name"]: one["extra_info"] for one in json.loads(path.read_text("utf-8"))["benchmarks"]
    }


def accepted(runs: Sequence[Mapping[str, Facts]]) -> dict[str, Facts]:
    """What several runs of one commit come to; only tests that all of them have."""
    facts: dict[str, Facts] = {}
    for name in sorted(set(runs[0]).intersection(*runs)):
        ratios = [run[name]["ratio"] for run in runs]
        middle = median(ratios)
        spread = 2 * max(abs(ratio - middle) for ratio in ratios) / middle
        facts[name] = {
            "reference": runs[0][name]["reference"],
            "ratio": float(f"{middle:.4g}"),
            "noise": round(max(LEAST_NOISE, spread), 2),
        }
    return facts


def worse(run: Mapping[str, Facts], committed: Mapping[str, Facts]) -> list[str]:
    """Names of the tests whose ratio has got worse by more than its noise."""
    return [
        name
        for name, facts in run.items()
        if name in committed
        and facts["ratio"] > committed[name]["ratio"] * (1 + committed[name]["noise"])
    ]


def table(run: Mapping[str, Facts], committed: Mapping[str, Facts]) -> str:
    """A line for each test."""
    bad = worse(run, committed)
    lines = [f"{'':32} {'ratio':>9} {'committed':>9} {'noise':>6}  reference"]
    for name in sorted(set(run) | set(committed)):
        here, there = run.get(name), committed.get(name)
        ratio = f"{here['ratio']:.4g}" if here else "not run"
        usual = f"{there['ratio']:.4g}" if there else "new"
        noise = f"{there['noise']:.0%}" if there else ""
        reference = (here or there or {})["reference"] + (", WORSE" if name in bad else "")
        lines.append(f"{name:32} {ratio:>9} {usual:>9} {noise:>6}  {reference}")
    return "\n".join(lines)


def main(words: Sequence[str]) -> int:
    """Compare, or accept."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--accept", action="store_true")
    parser.add_argument("--some", action="store_true", help="committed ones may be missing")
    arguments = parser.parse_args(words)
    runs = [read_run(path) for path in arguments.runs]
    if arguments.accept:
        if len(runs) < FEWEST_RUNS:
            parser.error(f"noise is that of at least {FEWEST_RUNS} runs")
        content = json.dumps(accepted(runs), indent=1, sort_keys=True) + "\n"
        COMMITTED.write_text(content, "utf-8")
    committed = json.loads(COMMITTED.read_text("utf-8")) if COMMITTED.exists() else {}
    print(table(runs[-1], committed))
    bad = worse(runs[-1], committed)
    if bad:
        print(f"worse by more than the noise: {', '.join(bad)}", file=sys.stderr)
    missing = [] if arguments.some else sorted(committed.keys() - runs[-1].keys())
    if missing:
        print(f"committed, but not run: {', '.join(missing)}", file=sys.stderr)
    return 1 if bad or missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
