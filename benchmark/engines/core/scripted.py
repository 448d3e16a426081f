"""Scripted policies as engines: the task's expert and the random policy."""

from typing import Any

from benchmark.engines.core.base import Engine, Generation, Request
from benchmark.engines.core.names import POLICIES

SCRIPTED = "scripted"
"""This engine's kind in a run's facts."""


class ScriptedEngine(Engine):
    """Answers with the task's own scripted policy; needs no model.

    Args:
        policy: `expert` or `random`.
    """

    def __init__(self, policy: str) -> None:
        if policy not in POLICIES:
            raise ValueError(f"policy must be one of {POLICIES}, not {policy!r}")
        self.name = policy

    async def generate(self, request: Request) -> Generation:
        """Ask the policy; the random one uses only the request's seed."""
        text = await request.episode.scripted(self.name, request.seed)
        return Generation(text=text, finish_reason="stop")

    def describe(self) -> dict[str, Any]:
        """The policy's name."""
        return {"kind": SCRIPTED, "policy": self.name}
