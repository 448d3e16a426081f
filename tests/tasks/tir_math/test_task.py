"""The task as seen by the harness: conversation rules, records, replay."""

import asyncio
import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmark.cli.main import main
from benchmark.engines.core.base import Engine, Generation, Request
from benchmark.evaluation.protocol import PanelProtocol
from benchmark.evaluation.records import EpisodeRecord, record_of
from benchmark.evaluation.replay import Replay, replay_records
from benchmark.evaluation.rollout import Job, play_episode
from benchmark.hosts.inline import InlineHost
from tasks.chat.messages import text_of
from tasks.episode import Step
from tasks.errors import UserError
from tasks.panels import PanelEntry
from tasks.registry import load_task
from tasks.tir_math.outputs import MOST_SHOWN, Output
from tasks.tir_math.sandbox.base import Execution
from tasks.tir_math.services import sandbox as sandbox_of_this_process
from tasks.tir_math.task import TirMathTask
from tests.tasks.tir_math.sandbox.needs import needs_bubblewrap

TASK = load_task("tir_math")
PANEL = TASK.panel("builtin")
ENTRY = PanelEntry("sum-x", "1", {"question": "Add 2 and 3.", "answer": "5"})
PROTOCOL = PanelProtocol.of(TASK, PANEL)

pytestmark = needs_bubblewrap


def code(text: str) -> str:
    return f"I compute.\n```python\n{text}\n```"


def play(*responses: str, entry: PanelEntry = ENTRY) -> list[Step]:
    episode = TASK.episode(entry, 5)
    episode.reset()
    return [episode.step(response) for response in responses]


def test_a_program_then_its_output_as_the_answer() -> None:
    first, second = play(code("print(2 + 3)"), "So it is \\boxed{5}.")
    assert first.action == "print(2 + 3)"
    assert first.info == {"status": "ok", "output": "5", "boxed": None}
    assert first.view.observation == "5"
    assert [m["role"] for m in first.view.messages] == ["user", "assistant", "user"]
    assert text_of(first.view.messages[1]) == code("print(2 + 3)")
    assert first.outcome is None
    assert second.action == "\\boxed{5}"
    assert second.outcome is not None and second.outcome.success
    assert (second.reward, second.outcome.score) == (1.0, 100.0)
    assert second.info == {"answer": "5", "verdict": "equal"}


def test_a_program_that_answers_ends_the_problem() -> None:
    (step,) = play(code("final_answer(2 + 3)"))
    assert step.outcome is not None and step.outcome.success
    (wrong,) = play(code("final_answer(2 * 3)"))
    assert wrong.outcome is not None and not wrong.outcome.success
    assert wrong.info["verdict"] == "different"


def test_what_a_program_prints_counts_before_what_the_prose_says() -> None:
    (step,) = play("It is \\boxed{4}.\n" + code("final_answer(5)"))
    assert step.info["answer"] == "5"
    (prose,) = play("It is \\boxed{4}.\n" + code("print(5)"))
    assert prose.info["answer"] == "4"
    assert prose.outcome is not None and not prose.outcome.success


def test_a_box_in_a_program_that_does_not_print_it_is_no_answer() -> None:
    (step,) = play(code("x = r'\\boxed{5}'"))
    assert step.outcome is None
    assert step.info["output"] == "The program printed nothing."


def test_what_follows_a_program_is_dropped() -> None:
    (step,) = play(code("print(1)") + "\nOutput:\n7\nSo \\boxed{5}.")
    assert step.outcome is None
    assert text_of(step.view.messages[1]) == code("print(1)")


@pytest.mark.parametrize("text", ["", "I do not know.", "```python\nprint(1)", "```bash\nls\n```"])
def test_a_void_turn_ends_the_problem(text: str) -> None:
    (step,) = play(text)
    assert step.outcome is not None and not step.outcome.success
    assert not step.format_ok and not step.action_ok
    assert step.action is None


def test_the_last_turn_ends_the_problem() -> None:
    steps = play(*[code("print(1)")] * 5)
    assert [step.outcome is None for step in steps] == [True] * 4 + [False]
    assert steps[-1].outcome is not None and not steps[-1].outcome.success
    with pytest.raises(RuntimeError, match="not running"):
        TASK.episode(ENTRY, 5).step("x")


def test_programs_share_nothing() -> None:
    _, step = play(code("x = 1"), code("print(x)"))
    assert step.info == {
        "status": "error",
        "output": "NameError: name 'x' is not defined",
        "boxed": None,
    }


def test_the_answer_is_compared_as_mathematics() -> None:
    half = replace(ENTRY, data={"question": "?", "answer": "\\frac{1}{2}"})
    (step,) = play("\\boxed{0.5}", entry=half)
    assert step.outcome is not None and step.outcome.success


@pytest.mark.parametrize(
    ("execution", "shown"),
    [
        (Execution("ok", "3\n", ""), "3"),
        (Execution("ok", "", "a warning"), "The program printed nothing."),
        (Execution("error", "1\n", "Traceback\n  x\nE: no\n"), "1\nE: no"),
        (Execution("error", "", ""), "The program failed."),
        (Execution("time limit", "1\n", "x"), "1\nThe program was stopped: it ran too long."),
        (
            Execution("ok", "a" * MOST_SHOWN + "bcd", ""),
            "a" * 256 + "\n[3 characters left out]\n" + "a" * 253 + "bcd",
        ),
    ],
)
def test_what_is_shown_of_an_execution(execution: Execution, shown: str) -> None:
    assert Output.of(execution).output == shown


def test_an_answer_is_found_in_output_that_is_not_shown() -> None:
    text = "x" * 600 + "\\boxed{5}" + "y" * 600
    output = Output.of(Execution("ok", text, ""))
    assert output.boxed == "5"
    assert "boxed" not in output.output


class Says(Engine):
    """Gives prescribed responses with made-up token ids."""

    name = "says"

    def __init__(self, *responses: str) -> None:
        self._responses = list(responses)
        self.asked: list[Request] = []

    async def generate(self, request: Request) -> Generation:
        turn = len(self.asked)
        self.asked.append(request)
        ids = tuple(range(100 * turn))
        return Generation(
            self._responses[turn],
            "stop",
            prompt_tokens=len(ids) + 1,
            response_tokens=2,
            prompt_ids=(*ids, 7),
            response_ids=(8, 9),
        )

    def describe(self) -> dict[str, Any]:
        return {}


def recorded(*responses: str) -> tuple[EpisodeRecord, Says]:
    engine = Says(*responses)
    job = Job(TASK, ENTRY, 0, PROTOCOL)
    trajectory = asyncio.run(play_episode(job, engine, InlineHost()))
    return record_of(trajectory), engine


class InProcess(TirMathTask):
    """The task, replayed in this process, because starting another one takes a second."""

    info = replace(TirMathTask.info, worker_processes=False)


def replayed(record: EpisodeRecord) -> Replay:
    # In the form that `replay` reads.
    strict = EpisodeRecord.model_validate_json(record.model_dump_json())
    (replay,) = replay_records([(strict, PROTOCOL, InProcess(), ENTRY)])
    return replay


def changed(record: EpisodeRecord, turn: int, **info: Any) -> EpisodeRecord:
    turns = list(record.turns)
    turns[turn] = turns[turn].model_copy(update={"info": {**turns[turn].info, **info}})
    return record.model_copy(update={"turns": tuple(turns)})


def test_records_replay() -> None:
    record, engine = recorded(code("print(2 + 3)"), "\\boxed{5}")
    assert record.success
    assert engine.asked[0].previous is None
    assert engine.asked[1].previous is not None
    replay = replayed(record)
    assert not replay.differences and not replay.doubts


@pytest.mark.slow
def test_a_changed_output_is_found() -> None:
    record, _ = recorded(code("print(2 + 3)"), "\\boxed{5}")
    replay = replayed(changed(record, 0, output="6"))
    assert {difference.field for difference in replay.differences} >= {"info"}
    assert not replay.doubts


@pytest.mark.slow
def test_a_program_of_chance_is_in_doubt_and_the_rest_is_replayed() -> None:
    record, _ = recorded(code("import os; print(os.urandom(8).hex())"), "\\boxed{5}")
    replay = replayed(record)
    assert not replay.differences
    ((turn, doubt),) = replay.doubts
    assert turn == 1 and "not deterministic" in doubt


@pytest.mark.slow
def test_no_answer_may_hang_on_chance() -> None:
    program = "import os\nif os.urandom(4) == b'aaaa': print(5)\nfinal_answer(os.urandom(4).hex())"
    record, _ = recorded(code(program))
    forged = changed(record, 0, boxed="5", output="\\boxed{5}", answer="5", verdict="equal")
    replay = replayed(forged.model_copy(update={"success": True, "score": 100.0}))
    assert {difference.field for difference in replay.differences} >= {"success"}


def test_seeded_draws_repeat() -> None:
    program = "import random, numpy\nprint(random.random(), numpy.random.rand(), hash('a'))"
    record, _ = recorded(code(program), "\\boxed{5}")
    assert not replayed(record).doubts


def test_a_report_takes_outputs_from_the_record() -> None:
    episode = TASK.episode(ENTRY, 5)
    episode.reset()
    info = {"status": "ok", "output": "as recorded", "boxed": None}
    redone = episode.replay_step(code("import time; time.sleep(9)"), info, trust=True)
    assert redone.step.view.observation == "as recorded"


@pytest.mark.parametrize(
    "info", [{}, {"status": "fine", "output": "x", "boxed": None}, {"output": 3}]
)
def test_what_cannot_have_been_recorded_is_not_gone_on_from(info: dict[str, Any]) -> None:
    assert Output.recorded(info) is None
    episode = TASK.episode(ENTRY, 5)
    episode.reset()
    assert episode.replay_step(code("print(1)"), info).step.view.observation == "1"


@pytest.mark.slow
def test_the_expert_solves_every_kind() -> None:
    for entry in PANEL.entries[:25]:
        episode = TASK.episode(entry, 5)
        episode.reset()
        episode.step(TASK.expert_response(episode))
        step = episode.step(TASK.expert_response(episode))
        assert step.outcome is not None and step.outcome.success, entry.id


def test_the_random_policy_is_well_formed() -> None:
    rng = random.Random(0)
    for _ in range(5):
        episode = TASK.episode(ENTRY, 5)
        episode.reset()
        assert episode.step(TASK.random_response(episode, rng)).format_ok


@pytest.mark.slow
def test_the_careless_player_guesses_what_a_program_would_tell() -> None:
    rng = random.Random(0)
    for entry in PANEL.entries[:25]:
        episode = TASK.episode(entry, 5)
        episode.reset()
        guess = TASK.careless_response(episode, rng)
        assert re.findall(r"\d+", guess)[0] in TASK.describe(entry)
        episode.step(TASK.expert_response(episode))
        assert TASK.careless_response(episode, rng) == TASK.expert_response(episode)
        guessed = TASK.episode(entry, 5)
        guessed.reset()
        outcome = guessed.step(guess).outcome
        assert outcome is not None and not outcome.success, entry.id


def test_without_a_sandbox_nothing_is_played(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sandbox_of_this_process.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    try:
        with pytest.raises(UserError, match=r"apt-get install bubblewrap.*sandbox=unsafe"):
            TASK.require()
    finally:
        sandbox_of_this_process.cache_clear()


def test_the_unsafe_sandbox_is_an_override() -> None:
    unsafe = TASK.configured({"sandbox": "unsafe"})
    protocol = PanelProtocol.of(unsafe, unsafe.panel("builtin"))
    assert protocol.overrides == {"tir_math.sandbox": "unsafe"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "action"), [("print(1)", "print(1)"), ("= 5", "\\boxed{5}"), ("= {", None)]
)
def test_what_a_person_types(line: str, action: str | None) -> None:
    (step,) = play(TASK.typed_response(line))
    assert step.action == action


@pytest.mark.slow
def test_an_answer_that_comes_out_again_holds_whatever_else_is_printed() -> None:
    record, _ = recorded(code("import time\nprint(time.time_ns())\nfinal_answer(5)"))
    replay = replayed(record)
    assert record.success and not replay.differences
    assert len(replay.doubts) == 1


@pytest.mark.slow
def test_what_depends_on_the_process_is_in_doubt_and_not_refuted() -> None:
    record, _ = recorded(code("print(map(int, [1]))"), "\\boxed{5}")
    sandbox_of_this_process("bubblewrap").close()
    sandbox_of_this_process.cache_clear()
    assert not replayed(record).differences


@pytest.mark.slow
@pytest.mark.parametrize("warm", [True, False])
def test_a_limit_of_time_is_not_believed_of_a_short_program(warm: bool) -> None:
    record, _ = recorded(code("print(1)"), "\\boxed{5}")
    told = "The answer is surely 5."
    if not warm:
        sandbox_of_this_process("bubblewrap").close()
        sandbox_of_this_process.cache_clear()
    replay = replayed(changed(record, 0, status="time limit", output=told))
    assert {difference.field for difference in replay.differences} >= {"info"}
    assert not replay.doubts


@pytest.mark.slow
def test_a_copied_question_is_no_answer() -> None:
    generated = replace(ENTRY, data={**ENTRY.data, "kind": "sum", "arguments": {"a": 2, "b": 3}})
    (copied,) = play("\\boxed{2 + 3}", entry=generated)
    assert copied.info["verdict"] == "computation"
    (solved,) = play("\\boxed{2 + 3 = 5}", entry=generated)
    assert solved.info["verdict"] == "equal"
    # For the field's problems, math-verify decides what counts.
    (field,) = play("\\boxed{2 + 3}")
    assert field.info["verdict"] == "equal"


@pytest.mark.slow
def test_a_foreign_run_runs_nothing_without_isolation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, harm = tmp_path / "run", tmp_path / "harm"
    unsafe = ["--set", "tir_math.sandbox=unsafe"]
    played = ["eval", "--engine", "expert", "--task", "tir_math/builtin", "--shard", "1/125"]
    assert main([*played, *unsafe, "--out", str(run)]) == 0
    rows = [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]
    for row in rows:
        row["turns"][0] |= {"response": code(f"open({str(harm)!r}, 'w')"), "info": {}}
    (run / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["report", str(run)]) == 0
    assert not harm.exists()
    assert main(["replay", str(run)]) == 2
    assert "if you trust the run, pass --set tir_math.sandbox=unsafe" in capsys.readouterr().err
    assert not harm.exists()
    # The check can fail: if the sandbox is unsafe, the harm is done.
    assert main(["replay", *unsafe, str(run)]) == 1
    assert harm.exists()
