"""Fuzzing of `submit check`: thousands of damaged submissions, and which check rejects them.

    .venv/bin/python -m tests.benchmarks.scripts.submit_fuzz [--count 10000] [--seed 0]

Prints, at the end or after Ctrl-C, for every kind of damage how many were rejected and how many
were accepted; then the messages by frequency, the longest check and the highest memory. Exit code 1
if a check fails with a traceback, or if something is accepted that shows another number, model or
kind than the untouched submission.
"""

import argparse
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tasks.seeding import stable_seed
from tests.support.fuzz.damage import judged, mutate, proven
from tests.support.submissions import (
    check,
    copied,
    play_policy,
    policy_submission,
    trained_submission,
)


@dataclass(slots=True)
class Tally:
    """What came out so far."""

    rejected: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    by: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    longest: tuple[float, float, int] = (0.0, 0.0, 0)


def main() -> int:
    """Make submissions, damage and check them."""
    parser = argparse.ArgumentParser(description="Fuzz the check of submissions.")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="number of the first one")
    arguments = parser.parse_args()
    # What a shell starts in the background ignores Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        bases = _bases(root)
        untouched = {base: proven(check(base)) for base in bases}
        before = _highest_mib()
        tally = Tally()
        with suppress(KeyboardInterrupt):  # what came out so far is worth telling
            for number in range(arguments.seed, arguments.seed + arguments.count):
                _one(number, bases, untouched, root / "copy", tally)
                if (number + 1) % 500 == 0:
                    print(f"{number + 1}: {len(tally.wrong)} wrong", file=sys.stderr)
        _report(tally, before)
    return 1 if tally.wrong else 0


def _bases(root: Path) -> list[Path]:
    expert = play_policy(root / "expert", "expert")
    random_run = play_policy(root / "random", "random")
    return [
        policy_submission(root, expert),
        trained_submission(root, expert, random_run),
    ]


def _one(
    number: int, bases: list[Path], untouched: dict[Path, dict[str, Any]], root: Path, tally: Tally
) -> None:
    draw = random.Random(stable_seed("submit-fuzz", number))
    base = draw.choice(bases)
    shutil.rmtree(root, ignore_errors=True)
    copy = copied(base, root)
    done = mutate(copy, draw)
    began, cpu = time.perf_counter(), time.process_time()
    try:
        verdict = check(copy.folder)
        content = judged(verdict)
    except Exception:  # whatever it is, it is what is looked for
        tally.wrong.append(f"{number} ({done}): {traceback.format_exc()}")
        return
    spent = time.process_time() - cpu
    tally.longest = max(tally.longest, (spent, time.perf_counter() - began, number))
    if not verdict.accepted:
        tally.rejected[done] += 1
        tally.by[_kind_of(content["findings"][0])] += 1
    elif proven(verdict) == untouched[base]:
        tally.accepted[done] += 1
    else:
        tally.wrong.append(f"{number} ({done}): accepted, and shows something else")


def _kind_of(finding: dict[str, str]) -> str:
    """A finding without what is particular to it."""
    text = f"{finding['file']}, {finding['problem']}"
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "'...'", text)
    return re.sub(r"[0-9][0-9a-f.,]*", "N", text)[:100]


def _highest_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _report(tally: Tally, before: float) -> None:
    print(f"{'damage':60} rejected accepted, nothing shown differs")
    for kind in sorted({*tally.rejected, *tally.accepted}):
        print(f"{kind:60} {tally.rejected[kind]:8} {tally.accepted[kind]:8}")
    print(f"{'all':60} {tally.rejected.total():8} {tally.accepted.total():8}")
    print(f"\n{len(tally.by)} different messages, most frequent first:")
    for text, count in tally.by.most_common(40):
        print(f"{count:6}  {text}")
    cpu, wall, number = tally.longest
    print(f"\nlongest check: {cpu:.2f} s of CPU ({wall:.2f} s), number {number}")
    print(f"memory: {_highest_mib():.0f} MiB at most, {before:.0f} MiB before the first one")
    print(f"accepted wrongly, or with a traceback: {len(tally.wrong)}")
    for text in tally.wrong[:20]:
        print(text)


if __name__ == "__main__":
    sys.exit(main())
