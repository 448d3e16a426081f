"""Counts an engine's steps: unlike a time limit, a limit on work also holds on a busy machine."""

from typing import Any

from benchmark.engines.core.worker import WorkerEngine


def counted_steps(engine: WorkerEngine) -> list[None]:
    """A list that grows by one with every engine step, which adds one token to every answer."""
    steps: list[None] = []
    advance = engine._advance

    def counted(arrived: Any) -> Any:
        steps.append(None)
        return advance(arrived)

    engine._advance = counted  # type: ignore[method-assign]
    return steps
