"""Playing and judging: engines, rollouts, records, replay, statistics and reports.

From Python:

    import benchmark

    run = benchmark.evaluate("tiny-sokoban", limit=10)   # as `arlarena-bench eval`
    run.to_frame()                                       # episodes; to_frame("turns"): turns
    benchmark.compare(run, "runs/another").to_frame()    # success, models by panels

`docs/python.ipynb` shows more. Neither torch nor vLLM nor pandas is imported before it is needed.
"""

from benchmark.api import Comparison, Run, compare, evaluate, read_run

__all__ = ["Comparison", "Run", "compare", "evaluate", "read_run"]
