"""Count what an engine does: a bound on work holds on a busy machine, one on seconds does not."""

from typing import Any

from benchmark.engines.core.worker import WorkerEngine


def counted_steps(engine: WorkerEngine) -> list[None]:
    """A list that grows by one whenever the engine begins a step: a token of every answer."""
    steps: list[None] = []
    advance = engine._advance

    def counted(arrived: Any) -> Any:
        steps.append(None)
        return advance(arrived)

    engine._advance = counted  # type: ignore[method-assign]
    return steps
