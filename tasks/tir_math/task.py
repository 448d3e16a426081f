"""The task `tir_math`: panels, prompt, episodes and scripted players."""

import os
import random
import re
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from sys import version_info

from tasks.base import Setting, Task, TaskInfo, Worst
from tasks.episode import Episode
from tasks.panels import BUILTIN, Panel, PanelEntry, PanelInfo, read_index, read_panel
from tasks.presentation import Presentation
from tasks.prompts import read_prompt
from tasks.texts import digest_text
from tasks.tir_math.checking import CPU_LIMIT_S, PACKAGES, RULE
from tasks.tir_math.episode import TirMathEpisode
from tasks.tir_math.evaluated import is_computation, is_number
from tasks.tir_math.expert import final, program
from tasks.tir_math.hub import VARIABLE, available, content_sha256, field_panels, read_problems
from tasks.tir_math.outputs import MOST_SHOWN
from tasks.tir_math.problems.stream import identity, training_problem
from tasks.tir_math.response import CONTRACT, format_answer, format_code
from tasks.tir_math.sandbox.base import LIMITS, Execution
from tasks.tir_math.sandbox.choose import KINDS
from tasks.tir_math.services import checker, sandbox

PANELS = Path(__file__).parent / "panels"

_IN_SANDBOX = ("numpy", "sympy", "mpmath")
_TURNS = 5
_ANSWERING = "="
"""What a person's answer begins with."""


class TirMathTask(Task):
    """Solve problems of mathematics with programs."""

    info = TaskInfo(
        name="tir_math",
        version="1",
        presentation=Presentation(
            title="TIR Math",
            summary="Solve a problem of mathematics with programs that run in a sandbox.",
            score_name="accuracy",
            score_unit="%",
            category_name="level",
            typing=f"type a line of Python, or {_ANSWERING} and an answer,",
        ),
        history_turns=_TURNS,
        field_panel="aime24",
        unit="trajectory",
        worker_processes=True,
        slow_replay=True,
        data_variable=VARIABLE,
        settings={
            "sandbox": Setting(
                "bubblewrap",
                "where programs run: bubblewrap; http, a server named by "
                "$TIR_MATH_SANDBOX_URL; or unsafe, with no isolation at all",
                KINDS,
                dangerous=("unsafe",),
            )
        },
    )

    def __init__(self) -> None:
        self._prompt = read_prompt(Path(__file__).parent)

    def panels(self) -> Mapping[str, PanelInfo]:
        """`builtin` and the field's `aime24`, `aime25` and `math500`."""
        return read_index(PANELS)

    def panel(self, name: str) -> Panel:
        """Read a panel; the hash of the field's is computed from what is read."""
        if name not in field_panels():
            return read_panel(self.info.name, PANELS, name)
        entries = read_problems(name)
        info = replace(self.panels()[name], sha256=content_sha256(entries))
        if os.environ.get(VARIABLE):
            own = f"{info.description}, as files of the user have them ({digest_text(info.sha256)})"
            info = replace(info, description=own)
        return Panel(self.info.name, info, entries)

    def available(self, name: str) -> bool:
        """Whether the panel's file is on this machine."""
        return name == BUILTIN or (name in field_panels() and available(name))

    def training_entry(self, index: int, seed: int = 0) -> PanelEntry:
        """A generated problem that is in no panel."""
        problem = training_problem(index, seed)
        return PanelEntry(f"train-{seed}-{index}", str(problem.level), problem.data())

    def identity(self, entry: PanelEntry) -> str:
        """Kind and numbers of a generated problem; the text of another one."""
        if "kind" in entry.data:
            return identity(entry.data["kind"], entry.data["arguments"])
        return str(entry.data["question"])

    def episode(self, entry: PanelEntry, max_turns: int) -> TirMathEpisode:
        """Open a problem."""
        kind = self.settings()["sandbox"]

        def run(code: str, fresh: bool) -> Execution:
            # Opened when it is needed: to show a record, no program is run.
            return sandbox(kind).run(code, fresh)

        judge = _judge_generated if "kind" in entry.data else _judge
        return TirMathEpisode(entry, max_turns, self._prompt.template, run, judge)

    def expert_response(self, episode: Episode) -> str:
        """A program, then what it printed as the answer.

        For problems of the field, of which it knows nothing, the stored answer: their panels are
        validated with it, each right answer against itself.
        """
        playing = self._own(episode)
        data = playing.entry.data
        if "kind" not in data:
            return format_answer("This is the stored answer.", data["answer"])
        if playing.output is None:
            return format_code("I compute it.", program(data["kind"], data["arguments"]))
        return f"The program gives the answer.\n{final(playing.output.output)}"

    def random_response(self, episode: Episode, rng: random.Random) -> str:
        """A program that computes anything, or a number as the answer."""
        del episode
        first, second = (int(rng.random() * 1000) for _ in range(2))
        if rng.random() < 0.5:
            return format_code("I try this.", f"print({first} * {second})")
        return format_answer("I guess.", str(first))

    def careless_response(self, episode: Episode, rng: random.Random) -> str:
        """The question's first number as the answer, without a program; after one, as the expert.

        Where the question has no number, or nothing is known of the problem, any mistake.
        """
        playing = self._own(episode)
        number = re.search(r"\d+", self.describe(playing.entry))
        if "kind" not in playing.entry.data or number is None:
            return self.mistaken_response(episode, rng)
        if playing.output is not None:
            return self.expert_response(episode)
        return format_answer("I guess.", number.group())

    def typed_response(self, line: str) -> str:
        """A program of one line, or an answer."""
        if line.startswith(_ANSWERING):
            return f"\\boxed{{{line.removeprefix(_ANSWERING).strip()}}}"
        return f"```python\n{line}\n```"

    def worst(self, max_turns: int) -> Worst:
        """Nothing is earned."""
        del max_turns
        return Worst(score=0.0, reward=0.0)

    def describe(self, entry: PanelEntry) -> str:
        """The question."""
        return str(entry.data["question"])

    def require(self) -> None:
        """Check that programs can be run."""
        sandbox(self.settings()["sandbox"])

    def prompt_template(self) -> str:
        """The text of `prompt.md`."""
        return self._prompt.text

    def contract(self) -> str:
        """How responses are read, what is shown of outputs, and what programs may take."""
        kind = self.settings()["sandbox"]
        limits = str(LIMITS) if kind == "bubblewrap" else f"cpu {LIMITS.cpu_s} s, else as {kind}"
        return (
            f"{CONTRACT}; output {MOST_SHOWN} characters; programs: {limits}; "
            f"{RULE}, cpu {CPU_LIMIT_S:g} s"
        )

    def packages(self) -> Mapping[str, str]:
        """What answers are compared with, and what programs run in where that is here."""
        versions = {name: version(name) for name in PACKAGES}
        if self.settings()["sandbox"] == "http":
            # A server's own versions are not asked for: a report must not need the server.
            return versions
        versions |= {name: version(name) for name in _IN_SANDBOX}
        return versions | {"python": f"{version_info.major}.{version_info.minor}"}

    @staticmethod
    def _own(episode: Episode) -> TirMathEpisode:
        if not isinstance(episode, TirMathEpisode):
            raise TypeError(f"not a TIR Math episode: {episode!r}")
        return episode


def _judge(answer: str, truth: str) -> tuple[bool, str]:
    verdict = checker().check(answer, truth)
    return verdict.equal, verdict.reason


def _judge_generated(answer: str, truth: str) -> tuple[bool, str]:
    unfinished = False, "computation"
    if is_computation(answer, truth):
        return unfinished
    equal, reason = _judge(answer, truth)
    return unfinished if equal and not is_number(answer, truth) else (equal, reason)


TASK = TirMathTask
