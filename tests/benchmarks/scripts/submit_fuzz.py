"""Fuzzing of `submit check`: thousands of damaged submissions, and what the check says of each.

    .venv/bin/python -m tests.benchmarks.scripts.submit_fuzz [--count 10000] [--seed 0]

Panels are cut to their first levels, so that ten thousand checks take minutes. Submissions are
damaged and checked in child processes, a batch each, with a limit of time and memory: what hangs
or ends the child counts as wrong. A replay that held is not repeated for the same content.

Prints how many were rejected and accepted by the kind of the damaged file; of what class the
differences of the accepted ones are (`tests.support.fuzz.oracle`); the messages by frequency, the
longest check and the highest memory. Exit code 1 if anything was wrong: a traceback, a hang, or
something accepted that differs in more than what is known to prove nothing.
"""

import argparse
import json
import os
import random
import re
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tasks.seeding import stable_seed
from tests.support.fuzz.bases import Base, make_bases
from tests.support.fuzz.damage import mutate
from tests.support.fuzz.oracle import classes_of, judged, proven, unclassed
from tests.support.submissions.small import copied

BATCH: Final = 200
CPU_S: Final = 30.0
"""Seconds of computing that one submission may take."""
SILENT_S: Final = 600.0
"""Seconds of real time after which a child that says nothing waits for something."""
MEMORY: Final = 2**31
"""Bytes that a child may need beyond what it began with."""


@dataclass(slots=True)
class Tally:
    """What came out so far."""

    rejected: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    classes: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    by: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    longest: tuple[float, int] = (0.0, 0)
    memory: float = 0.0

    def add(self, said: dict[str, Any]) -> None:
        """Count what a child says of one submission."""
        file, number = said["file"], said["number"]
        self.longest = max(self.longest, (said["cpu"], number))
        self.memory = max(self.memory, said["mib"])
        if "wrong" in said:
            self.wrong.append(f"{number} ({said['base']}, {said['done']}): {said['wrong']}")
            print(self.wrong[-1], file=sys.stderr, flush=True)
        elif "finding" in said:
            self.rejected[file] += 1
            self.by[said["finding"]] += 1
        else:
            self.accepted[file] += 1
            self.classes[file][" + ".join(said["classes"]) or "nothing differs"] += 1


def main() -> int:
    """Make submissions, damage and check them."""
    parser = argparse.ArgumentParser(description="Fuzz the check of submissions.")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="number of the first one")
    arguments = parser.parse_args()
    # What a shell starts in the background ignores Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        bases = make_bases(root)
        before = _highest_mib()
        end = arguments.seed + arguments.count
        began = time.perf_counter()
        with suppress(KeyboardInterrupt):  # what came out so far is worth telling
            number = arguments.seed
            while number < end:
                for said in _batch(number, min(number + BATCH, end), bases, root):
                    tally.add(said)
                    number = said["number"] + 1
                done, wrong = number - arguments.seed, len(tally.wrong)
                print(f"{done} in {time.perf_counter() - began:.0f} s: {wrong} wrong", flush=True)
    _report(tally, before)
    return 1 if tally.wrong else 0


def _batch(first: int, end: int, bases: list[Base], root: Path) -> Iterator[dict[str, Any]]:
    """Let a child check some submissions; it says of each what came out, on a line.

    Yields:
        What it said; if it ended early or went silent, what is wrong with the last one.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        _limit_memory()
        with os.fdopen(write, "w", buffering=1) as out:
            for number in range(first, end):
                print(json.dumps(_one(number, bases, root / "copy")), file=out)
        os._exit(0)
    os.close(write)
    reached = first
    with os.fdopen(read, "rb", buffering=0) as lines:
        rest = b""
        while select.select([lines], [], [], SILENT_S)[0]:
            part = lines.read(2**16)
            if not part:
                break
            *whole, rest = (rest + part).split(b"\n")
            for line in whole:
                said = json.loads(line)
                reached = said["number"] + 1
                yield said
        else:
            os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if reached < end:
        wrong = f"the check did not end: {signal.strsignal(os.WTERMSIG(status))}"
        said = {"number": reached, "file": "?", "done": "?", "base": "?", "wrong": wrong}
        yield said | {"cpu": CPU_S, "mib": 0.0}


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _one(number: int, bases: list[Base], root: Path) -> dict[str, Any]:
    """Damage a submission and check it."""
    draw = random.Random(stable_seed("submit-fuzz", number))
    base = draw.choices(bases, [each.weight for each in bases])[0]
    shutil.rmtree(root, ignore_errors=True)
    copy = copied(base.folder, root)
    said: dict[str, Any] = {"number": number, "base": base.name, "file": "?", "done": "?"}
    began = time.process_time()
    # Past the limit the signal ends this process.
    signal.setitimer(signal.ITIMER_PROF, CPU_S)
    try:
        done = mutate(copy, draw)
        said |= {"file": done.file, "done": " + ".join(done.kinds)}
        if done.refused is None:
            said |= _checked(base, copy.folder)
        else:
            assert done.refused.isprintable(), done.refused
            said["finding"] = "about.yaml, refused"
    except (Exception, MemoryError):  # whatever it is, it is what is looked for
        said["wrong"] = traceback.format_exc()
    signal.setitimer(signal.ITIMER_PROF, 0)
    return said | {"cpu": time.process_time() - began, "mib": _highest_mib()}


def _checked(base: Base, folder: Path) -> dict[str, Any]:
    """What the check says of a damaged submission, and what of that is wrong."""
    verdict = base.check(folder)
    content = judged(verdict)
    if not verdict.accepted:
        return {"finding": _kind_of(content["findings"][0])}
    if proven(verdict) != base.proven:
        return {"wrong": "accepted, and shows something else"}
    classes = classes_of(base.folder, folder)
    if others := unclassed(classes):
        return {"wrong": f"accepted, and differs in {', '.join(others)}"}
    return {"classes": sorted(classes)}


def _kind_of(finding: dict[str, str]) -> str:
    """A finding without what is particular to it."""
    text = f"{finding['file']}, {finding['problem']}"
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "'...'", text)
    return re.sub(r"[0-9][0-9a-f.,]*", "N", text)[:100]


def _highest_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _report(tally: Tally, before: float) -> None:
    print(f"\n{'damaged file':20} rejected accepted")
    for kind in sorted({*tally.rejected, *tally.accepted}):
        print(f"{kind:20} {tally.rejected[kind]:8} {tally.accepted[kind]:8}")
    print(f"{'all':20} {tally.rejected.total():8} {tally.accepted.total():8}")
    print("\naccepted, by what differs from the original:")
    for kind, classes in sorted(tally.classes.items()):
        for what, count in classes.most_common():
            print(f"{kind:20} {count:6}  {what}")
    print(f"\n{len(tally.by)} different messages, most frequent first:")
    for text, count in tally.by.most_common(40):
        print(f"{count:6}  {text}")
    cpu, number = tally.longest
    print(f"\nlongest check: {cpu:.2f} s of CPU, number {number}")
    print(f"memory: {tally.memory:.0f} MiB at most, {before:.0f} MiB before the first one")
    print(f"wrong: {len(tally.wrong)}")
    for text in tally.wrong[:40]:
        print(text)


if __name__ == "__main__":
    sys.exit(main())
