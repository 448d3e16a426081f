"""One problem in play: a conversation of programs and their output, up to an answer."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import Template

from tasks.chat.messages import Message
from tasks.episode import Episode, Outcome, ReplayStep, Step, View
from tasks.panels import PanelEntry
from tasks.tir_math.outputs import Output
from tasks.tir_math.response import ProgramResponse, parse_response
from tasks.tir_math.sandbox.base import Execution

SCORE = 100.0
"""Of a right answer; all else scores 0."""
REWARD = 1.0
"""For a right answer; nothing else is paid."""

_EXECUTIONS = 3
"""Executions in a replay before what was recorded counts as refuted or in doubt."""
_LONG_S = 1.0
"""Seconds that a program runs here at least for a recorded limit of time to be credible."""
_STOPPED = "time limit"
_CHECKER_LIMITS = frozenset({"time limit", "memory limit"})


class TirMathEpisode(Episode):
    """One problem in play.

    Args:
        entry: What is asked.
        max_turns: Turns after which the episode ends.
        template: The prompt.
        run: Executes a program, on demand in a process that shares nothing with earlier ones.
        judge: Says of an answer and the right one whether they are equal, and why.
    """

    def __init__(
        self,
        entry: PanelEntry,
        max_turns: int,
        template: Template,
        run: Callable[[str, bool], Execution],
        judge: Callable[[str, str], tuple[bool, str]],
    ) -> None:
        self.entry = entry
        self.output: Output | None = None
        """What the last turn's program printed; None before the first."""
        self._max_turns = max_turns
        self._template = template
        self._run = run
        self._judge = judge
        self._messages: list[Message] = []
        self._turn = 0

    def reset(self) -> View:
        """Ask the question."""
        question = self.entry.data["question"]
        prompt = self._template.render(question=question, max_turns=self._max_turns).strip()
        self._messages = [Message(role="user", content=prompt)]
        self.output = None
        self._turn = 1
        return View(tuple(self._messages), question)

    def step(self, response: str) -> Step:
        """Run the response's program, or judge its answer."""
        self._check_running()
        parsed = parse_response(response)
        output = None if parsed.code is None else self._execute(parsed.code)
        return self._advance(parsed, output, self._verdict(parsed, output))

    def replay_step(
        self, response: str, recorded: Mapping[str, Any], trust: bool = False
    ) -> ReplayStep:
        """Run a recorded program again, a few times if it prints something else than recorded.

        What was recorded is in doubt, and the episode goes on from it, if the program prints one
        thing here and another there, or if it ran into the limit of time here or there and not in
        both. That needs that all executions print the recorded answer, or none as recorded. A
        program that always prints the same, and not what was recorded, refutes the record.

        With `trust` no program is run: what a record does not say is an error.

        Raises:
            RuntimeError: See `step`.
            ValueError: With `trust`, the record says nothing readable of a program's execution.
        """
        self._check_running()
        parsed = parse_response(response)
        told = Output.recorded(recorded)
        if trust:
            if parsed.code is not None and told is None:
                raise ValueError("the record does not say what the program printed")
            output = None if parsed.code is None else told
            verdict = None if _answer(parsed, output) is None else _told_verdict(recorded)
            return ReplayStep(self._advance(parsed, output, verdict), None)
        output, doubt = None, None
        if parsed.code is not None:
            output, doubt = self._again(parsed.code, told)
        verdict = self._verdict(parsed, output)
        if verdict is not None and not verdict[0] and recorded.get("verdict") in _CHECKER_LIMITS:
            # Wrong here as there; a faster machine comes to an end.
            verdict = False, str(recorded["verdict"])
        return ReplayStep(self._advance(parsed, output, verdict), doubt)

    def _again(self, code: str, told: Output | None) -> tuple[Output, str | None]:
        """Execute a recorded program until it is clear what to make of it."""
        seen = [self._execute(code)]
        if told is None or seen[0] == told:
            return seen[0], None
        while len(seen) < _EXECUTIONS and seen[-1] != told:
            seen.append(self._execute(code, fresh=True))
        if told in seen:
            return told, f"the program is not deterministic: execution {len(seen)} as recorded"
        if any(output.boxed != told.boxed for output in seen):
            return seen[0], None
        stopped = [_STOPPED in (told.status, output.status) for output in seen]
        if any(stopped) and (told.status != _STOPPED or self._takes_long(code)):
            statuses = f"{told.status!r} was recorded, {seen[-1].status!r} seen"
            return told, f"the program was stopped at the limit of time: {statuses}"
        if len(set(seen)) > 1:
            return told, f"the program is not deterministic: {len(seen)} executions differ"
        return seen[0], None

    def _takes_long(self, code: str) -> bool:
        """Whether a program runs for a while, the start of the sandbox not counted."""
        began = time.monotonic()
        self._execute(code)
        return time.monotonic() - began >= _LONG_S

    def _execute(self, code: str, fresh: bool = False) -> Output:
        return Output.of(self._run(code, fresh))

    def _verdict(self, parsed: ProgramResponse, output: Output | None) -> tuple[bool, str] | None:
        answer = _answer(parsed, output)
        return None if answer is None else self._judge(answer, self.entry.data["answer"])

    def _advance(
        self, parsed: ProgramResponse, output: Output | None, verdict: tuple[bool, str] | None
    ) -> Step:
        """Go on from a turn's output and verdict."""
        answer = _answer(parsed, output)
        self.output = output
        done = output is None or verdict is not None or self._turn == self._max_turns
        right = verdict is not None and verdict[0]
        info: dict[str, Any] = {} if output is None else output.data
        if answer is not None and verdict is not None:
            info |= {"answer": answer, "verdict": verdict[1]}
        seen = "" if output is None else output.output
        self._messages += [
            Message(role="assistant", content=parsed.kept),
            Message(role="user", content=f"Output:\n{seen}"),
        ]
        self._turn = 0 if done else self._turn + 1
        return Step(
            action=parsed.code if parsed.code is not None else _box(answer),
            format_ok=parsed.format_ok,
            action_ok=parsed.format_ok,
            reward=REWARD if right else 0.0,
            view=View(() if done else tuple(self._messages), seen),
            outcome=Outcome(right, SCORE if right else 0.0) if done else None,
            info=info,
        )

    def _check_running(self) -> None:
        if not self._turn:
            raise RuntimeError("the episode is not running: reset it first")


def _answer(parsed: ProgramResponse, output: Output | None) -> str | None:
    """The turn's answer: what its program printed counts before what its prose says."""
    printed = None if output is None else output.boxed
    return parsed.answer if printed is None else printed


def _box(answer: str | None) -> str | None:
    return None if answer is None else f"\\boxed{{{answer}}}"


def _told_verdict(recorded: Mapping[str, Any]) -> tuple[bool, str] | None:
    """The verdict that a record claims; None if it claims none."""
    verdict = recorded.get("verdict")
    return None if verdict is None else (verdict == "equal", str(verdict))
