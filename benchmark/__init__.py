"""Evaluation: engines, rollouts, records, replay, statistics and reports.

From Python:

    import benchmark

    run = benchmark.evaluate("tiny-sokoban", limit=10)   # as `arlarena-bench eval`
    run.to_frame()                                       # episodes; to_frame("turns"): turns
    benchmark.compare(run, "runs/another").to_frame()    # success, models by panels

`docs/python.ipynb` shows more. torch, vLLM and pandas are imported only when they are needed.
"""

from importlib.util import find_spec
from pathlib import Path

_FOUND = find_spec("tasks")
_TASKS = Path(_FOUND.origin).resolve().parent if _FOUND and _FOUND.origin else None
if Path(__file__).resolve().parents[1] / "tasks" != _TASKS:
    # `python -m` and notebooks search the working directory first.
    raise ImportError(
        f"another package `tasks` hides the benchmark's own ({_TASKS}): start in another folder, "
        "use the command arlarena-bench, or set PYTHONSAFEPATH=1"
    )

from benchmark.api import Comparison, Run, compare, evaluate, read_run  # noqa: E402

__all__ = ["Comparison", "Run", "compare", "evaluate", "read_run"]


def __getattr__(name: str) -> str:
    # Looked up on access, because a checkout on the path need not be installed.
    if name == "__version__":
        # Imported here, because it takes as long as everything else in this module.
        from importlib.metadata import version

        return version("arlarena-bench")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
