"""What running a program costs, warm and cold: `python -m tests.benchmarks.scripts.sandbox_speed`.

Warm is the default sandbox: a process with the libraries loaded forks for every program. Cold is
the same sandbox opened for every program, which is what containment costs without that. Unsafe is
a fresh interpreter without isolation. All of them take turns within each repetition. Then many
programs are run in one sandbox, and what they leave behind is counted.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tasks.tir_math.sandbox.base import LIMITS, Sandbox
from tasks.tir_math.sandbox.bubblewrap import find_bubblewrap
from tasks.tir_math.sandbox.choose import open_sandbox
from tasks.tir_math.sandbox.forkserver import ZygoteProcess
from tests.tasks.tir_math.sandbox.processes import below

PROGRAMS = {
    "print(1+1)": "2\n",
    "import sympy; print(sympy.factorint(10**12+39))": "{1000000000039: 1}\n",
}


def cold(code: str) -> str:
    zygote = ZygoteProcess(find_bubblewrap(), LIMITS)
    try:
        return zygote.run(code).stdout
    finally:
        zygote.stop()


def seconds(run: Callable[[str], str], code: str, times: int, threads: int = 1) -> float:
    """Seconds of an execution; all of them must print what they should."""
    begin = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        printed = list(pool.map(run, [code] * times))
    assert printed == [PROGRAMS[code]] * times, printed[0]
    return (time.perf_counter() - begin) / times


def compare(repeats: int, times: int, processes: int) -> None:
    with open_sandbox("bubblewrap", processes) as warm, open_sandbox("unsafe") as unsafe:
        ways: dict[str, tuple[Callable[[str], str], int, int]] = {
            "warm, one at a time": (lambda code: warm.run(code).stdout, times, 1),
            f"warm, {processes} at a time": (lambda code: warm.run(code).stdout, times, processes),
            "cold": (cold, 2, 1),
            "unsafe": (lambda code: unsafe.run(code).stdout, 2, 1),
        }
        for code in PROGRAMS:
            seconds(*ways[f"warm, {processes} at a time"][:1], code, 2 * processes, processes)
            results: dict[str, list[float]] = {name: [] for name in ways}
            for _ in range(repeats):
                for name, (run, count, threads) in ways.items():
                    results[name].append(seconds(run, code, count, threads))
            base = statistics.median(results["warm, one at a time"])
            print(f"{code}\n{'':24} executions/s: median (min, max)     time against warm")
            for name, measured in results.items():
                median = statistics.median(measured)
                spread = f"{1 / median:.1f} ({1 / max(measured):.1f}, {1 / min(measured):.1f})"
                print(f"{name:24} {spread:37} {median / base:.2f}")


def processor_ms(process: int) -> float:
    """Processor time of a process and of its children that have ended, in milliseconds."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) * 1000 / os.sysconf("SC_CLK_TCK")


def left_behind(sandbox: Sandbox, times: int) -> None:
    sandbox.run("")
    folder = Path(tempfile.gettempdir())
    zygote = max(below(os.getpid()))

    def state() -> tuple[int, int, int]:
        descriptors = len(list(Path("/proc/self/fd").iterdir()))
        return len(below(os.getpid())), descriptors, len(list(folder.iterdir()))

    def spent() -> float:
        return processor_ms(zygote) + time.process_time() * 1000

    before, begin, work = state(), time.perf_counter(), spent()
    for number in range(times):
        execution = sandbox.run(f"open('x', 'w').write('x')\nprint({number})")
        assert execution.stdout == f"{number}\n", execution
    wall, work, after = time.perf_counter() - begin, spent() - work, state()
    print(f"{times} programs in {wall:.1f} s, {times / wall:.1f}/s")
    print(f"  processor time of each, on all sides: {work / times:.1f} ms")
    for name, one, other in zip(("processes", "descriptors", "files"), before, after, strict=True):
        print(f"  {name}: {one} before, {other} after")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="interleaved repetitions")
    parser.add_argument("--times", type=int, default=50, help="warm executions in each of them")
    parser.add_argument("--processes", type=int, default=2, help="warm processes")
    parser.add_argument("--leftovers", type=int, default=2000, help="programs of the last part")
    arguments = parser.parse_args()
    compare(arguments.repeats, arguments.times, arguments.processes)
    with open_sandbox("bubblewrap") as sandbox:
        left_behind(sandbox, arguments.leftovers)


if __name__ == "__main__":
    main()
