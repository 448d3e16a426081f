"""Commands of entries, and where two logs first differ."""

from pathlib import Path

import pytest

from benchmark.commands_of_entry import (
    Commands,
    LogDifference,
    TrainCommand,
    commands_of,
    devices_of,
    first_difference,
    plugins_of,
    reproduce_text,
)
from benchmark.evaluation.manifest import Manifest
from benchmark.evaluation.protocol import THINKING, PanelProtocol
from benchmark.logs.training_log import TrainingLog, read_training_log
from benchmark.models import ModelIdentity
from tasks.errors import UserError
from tasks.seeding import sha256_text
from tests.support.runs.factories import make_manifest, make_protocol
from tests.support.training.logs import (
    Line,
    resume_line,
    start_line,
    update_line,
    validation_line,
    write_log,
)

WEIGHTS = sha256_text("weights")
LOADED = {"kind": "transformers", "dtype": "float32", "device": "cpu"}


def manifest(model: ModelIdentity) -> Manifest:
    return make_manifest().model_copy(update={"model": model, "engine": dict(LOADED)})


def log_of(folder: Path, *lines: Line, name: str = "log") -> TrainingLog:
    return read_training_log(write_log(folder / f"{name}.jsonl", [start_line(), *lines]))


def trained(log: TrainingLog, folder: str) -> TrainCommand:
    """The command for any log, with a file that it needs."""
    words = ("arlarena-bench", "train", "--recipe", f"{folder}/my own.yaml")
    return TrainCommand(words, {f"{folder}/my own.yaml": "a: 1\nb: 2\n"}, "only a test")


def refused(log: TrainingLog, folder: str) -> TrainCommand:
    raise UserError("the track\nis gone")


def commands(model: ModelIdentity, log: TrainingLog | None = None) -> Commands:
    return commands_of(4, [manifest(model)], log, trained, "out")


PLAYED = "--engine transformers --dtype float32 --task sokoban/builtin --out out/s4-eval"


@pytest.mark.parametrize(
    ("model", "line"),
    [
        (ModelIdentity(name="expert", kind="policy"), "--engine expert --task sokoban/builtin"),
        (ModelIdentity(name="tiny-sokoban", kind="init", sha256=WEIGHTS), "--model tiny-sokoban"),
        (ModelIdentity(name="a/b", kind="hub", revision="c" * 40), f"--model a/b@{'c' * 40}"),
        (
            ModelIdentity(name="last", kind="folder", sha256=WEIGHTS),
            f"--model <weights of seed 4, SHA-256 {WEIGHTS}>",
        ),
    ],
)
def test_without_a_log_there_is_an_evaluation_alone(model: ModelIdentity, line: str) -> None:
    (found,) = commands(model).lines
    end = "--out out/s4-eval" if model.kind == "policy" else PLAYED
    assert found == f"arlarena-bench eval {line} {end}"


@pytest.mark.parametrize("name", ["best", "last", "my-model"])
def test_with_a_log_the_same_checkpoint_is_trained_and_played(tmp_path: Path, name: str) -> None:
    model = ModelIdentity(name=name, kind="folder", sha256=WEIGHTS)
    log = log_of(tmp_path, update_line(1))
    checkpoint = "best" if name == "best" else "last"
    assert commands(model, log).lines == (
        "# only a test",
        "mkdir -p out",
        "cat > 'out/my own.yaml' <<'END'",
        "a: 1",
        "b: 2",
        "END",
        "arlarena-bench train --recipe 'out/my own.yaml' --out out/s4",
        f"arlarena-bench eval --model out/s4/{checkpoint} {PLAYED}",
    )


def test_every_command_asks_for_the_instructions_it_ran_with(tmp_path: Path) -> None:
    model = ModelIdentity(name="last", kind="folder", sha256=WEIGHTS)
    played = manifest(model)
    played.engine["device_name"] = "A CPU, AVX512"
    start = start_line()
    start["engine"] = {**LOADED, "device_name": "A CPU, AVX2"}
    log = read_training_log(write_log(tmp_path / "log.jsonl", [start, update_line(1)]))
    found = commands_of(4, [played], log, trained, "out")
    assert found.lines[-2].startswith("ATEN_CPU_CAPABILITY=avx2 arlarena-bench train ")
    assert found.lines[-1].startswith("arlarena-bench eval ")
    played.engine["device_name"] = "A CPU, AVX2"
    (line,) = commands_of(4, [played], None, None, "out").lines
    assert line.startswith("ATEN_CPU_CAPABILITY=avx2 arlarena-bench eval ")


@pytest.mark.parametrize(
    ("configuration", "words"),
    [
        (
            {"sampling": {"cross_policy": {"probability": 0.25}}},
            "with cross-policy sampling",
        ),
        ({"rollout": {"max_staleness": 1}}, "with asynchronous rollouts, where batches depend on"),
        ({"rollout": {"max_staleness": None}, "sampling": "x"}, None),
    ],
)
def test_what_runs_side_by_side_is_never_repeated_to_the_bit(
    configuration: dict[str, object], words: str | None, tmp_path: Path
) -> None:
    start = start_line(configuration=configuration)
    start["engine"] = {**LOADED, "device_name": "A CPU, AVX2"}
    log = read_training_log(write_log(tmp_path / "log.jsonl", [start, update_line(1)]))
    model = ModelIdentity(name="last", kind="folder", sha256=WEIGHTS)
    found = commands(model, log).obstacle
    assert found is None if words is None else str(found).startswith(words)


AMD, NEXT, INTEL = "AMD EPYC, AVX2", "AMD EPYC 9, AVX2", "Intel, AVX2"


@pytest.mark.parametrize(
    ("sessions", "text", "moves"),
    [
        ([], AMD, {}),
        ([(2, {"device_name": NEXT})], f"{AMD}; from update 3 on {NEXT}", {}),
        ([(1, {"device_name": INTEL})], f"{AMD}; from update 2 on {INTEL}", {2: ("device_name",)}),
        # Of two sessions that resume after the same update, the first has produced nothing that is
        # kept.
        ([(1, {"device_name": INTEL}), (1, {"device_name": AMD})], AMD, {}),
        (
            [(0, {"device_name": INTEL}), (2, {"device_name": None})],
            f"{INTEL}; from update 3 on an unknown device",
            {3: ("device_name",)},
        ),
        (
            [(2, {"device_name": AMD, "dtype": "bfloat16", "versions": {"x": 1}})],
            AMD,
            {3: ("dtype",)},
        ),
    ],
)
def test_a_training_that_continues_with_something_else_says_so(
    sessions: list[tuple[int, dict[str, object]]],
    text: str,
    moves: dict[int, tuple[str, ...]],
    tmp_path: Path,
) -> None:
    start = start_line()
    start["engine"] = {**LOADED, "device_name": AMD}
    lines, made = [start], 0
    for after, changes in sessions:
        lines += [update_line(number) for number in range(made + 1, after + 1)]
        lines.append(resume_line(after, {**LOADED, **changes}, start["versions"]))
        made = after
    # The last session has made no update yet.
    lines += [update_line(made + 1), resume_line(made + 1, {"kind": "vllm"}, {"torch": "9.9"})]
    log = read_training_log(write_log(tmp_path / "log.jsonl", lines))
    assert devices_of(log) == text
    found = commands(ModelIdentity(name="last", kind="folder", sha256=WEIGHTS), log)
    assert found.moves == moves
    assert found.device == (log.sessions[1].engine["device_name"])


def test_what_changed_during_a_training_is_named(tmp_path: Path) -> None:
    start = start_line(versions={"torch": "2.11", "numpy": "2.3"})
    lines = [start, update_line(1), update_line(2)]
    lines += [resume_line(2, start["engine"], {"torch": "2.13", "numpy": "2.3", "vllm": "0.1"})]
    log = read_training_log(write_log(tmp_path / "log.jsonl", [*lines, update_line(3)]))
    found = commands(ModelIdentity(name="last", kind="folder", sha256=WEIGHTS), log)
    assert found.moved == "torch, vllm before update 3"


@pytest.mark.parametrize("staleness", [None, 1])
def test_two_engines_that_take_their_steps_together_are_repeated_to_the_bit(
    staleness: int | None, tmp_path: Path
) -> None:
    start = start_line(
        configuration={
            "sampling": {"cross_policy": {"probability": 0.25}},
            "rollout": {"max_staleness": staleness},
        }
    )
    start["engine"] = {**LOADED, "device_name": "A CPU, AVX2", "deterministic": True}
    log = read_training_log(write_log(tmp_path / "log.jsonl", [start, update_line(1)]))
    found = commands(ModelIdentity(name="last", kind="folder", sha256=WEIGHTS), log).obstacle
    assert found == (staleness and "with asynchronous rollouts, where batches depend on timing")


def test_a_training_without_a_command_says_why(tmp_path: Path) -> None:
    model = ModelIdentity(name="last", kind="folder", sha256=WEIGHTS)
    log = log_of(tmp_path, update_line(1))
    found = commands_of(4, [manifest(model)], log, refused, "out")
    assert found.lines[0] == "# seed 4: the track is gone"
    assert found.lines[1].startswith("arlarena-bench eval --model <weights of seed 4")
    assert found.train_words is None


def test_every_run_of_a_checkpoint_has_its_folder() -> None:
    model = ModelIdentity(name="tiny-sokoban", kind="init", sha256=WEIGHTS)
    found = commands_of(0, [manifest(model)] * 2, None, None, "out")
    assert [run.out for run in found.runs] == ["out/s0-eval", "out/s0-eval-1"]


@pytest.mark.parametrize(
    ("option", "protocol"),
    [
        ("thinking", make_protocol(name=THINKING)),
        ("pixels", make_protocol(settings={"view": "pixels"})),
    ],
)
def test_a_protocol_that_is_not_the_standard_one_is_chosen(
    option: str, protocol: PanelProtocol
) -> None:
    model = ModelIdentity(name="tiny-sokoban", kind="init", sha256=WEIGHTS)
    played = make_manifest(protocol).model_copy(update={"model": model, "engine": LOADED})
    (line,) = commands_of(4, [played], None, None, "out").lines
    assert line == f"arlarena-bench eval --model tiny-sokoban --protocol {option} {PLAYED}"


def lines(loss: float = 0.5, seconds: float = 1.0, solved: int = 128) -> list[Line]:
    values = {"policy/loss": loss, "seconds/total": seconds}
    updates = [update_line(number, values) for number in (1, 2)]
    return [validation_line(0), *updates, validation_line(2, solved)]


def test_logs_are_equal_whatever_time_they_took(tmp_path: Path) -> None:
    one = log_of(tmp_path, *lines(), name="one")
    other = log_of(tmp_path, *lines(seconds=9.0), name="other")
    assert first_difference(one, other) is None


@pytest.mark.parametrize(
    ("name", "factor", "same"),
    [
        ("kl_old/mean", 1 + 1e-13, True),
        ("kl_old/mean", 1 + 1e-7, False),
        ("policy/loss", 1 + 1e-13, False),
    ],
)
def test_last_digits_that_depend_on_numpy_are_no_difference(
    name: str, factor: float, same: bool, tmp_path: Path
) -> None:
    one, other = (
        log_of(tmp_path, update_line(1, {name: value}), name=str(value))
        for value in (0.01, 0.01 * factor)
    )
    assert (first_difference(one, other) is None) is same


def test_the_first_number_that_differs_is_named(tmp_path: Path) -> None:
    one = log_of(tmp_path, *lines(), name="one")
    other = log_of(tmp_path, *lines(loss=0.25, solved=64), name="other")
    found = first_difference(one, other)
    assert found == LogDifference(1, "policy/loss", 0.5, 0.25)
    assert found.text == "update 1, policy/loss: 0.5 (entry) and 0.25 (here)"
    later = log_of(tmp_path, *lines(solved=64), name="later")
    assert first_difference(one, later) == LogDifference(2, "success", 0.5, 0.25)


def test_a_number_that_came_later_is_not_compared(tmp_path: Path) -> None:
    one = log_of(tmp_path, *lines(), name="one")
    more = [update_line(n, {"policy/loss": 0.5, "policy/grad_norm": 1.0}) for n in (1, 2)]
    other = log_of(tmp_path, validation_line(0), *more, validation_line(2), name="other")
    assert first_difference(one, other) is None
    gone = [update_line(1, {"policy/loss": 0.5}), update_line(2)]
    third = log_of(tmp_path, validation_line(0), *gone, validation_line(2), name="third")
    assert first_difference(one, third) == LogDifference(2, "policy/loss", 0.5, None)


def test_a_log_that_ends_before_differs_there(tmp_path: Path) -> None:
    one = log_of(tmp_path, *lines(), name="one")
    short = log_of(tmp_path, *lines()[:2], name="short")
    assert first_difference(one, short) == LogDifference(2, "lines", "update of 2", "ends before")
    assert first_difference(short, one) == LogDifference(2, "lines", "ends before", "update of 2")


def test_an_entry_is_made_again_with_its_plugins(tmp_path: Path) -> None:
    plain = log_of(tmp_path)
    start = start_line() | {"plugins": {"rank.py": WEIGHTS, "pkg.more": WEIGHTS}}
    own = read_training_log(write_log(tmp_path / "own.jsonl", [start]))
    assert plugins_of([plain, None]) == ()
    assert plugins_of([own, None, own]) == ("rank.py", "pkg.more")
    assert reproduce_text("20260101_a", ()) == "arlarena-bench reproduce submissions/20260101_a"
    assert reproduce_text("20260101_a", ("rank.py", "pkg.more")) == (
        "arlarena-bench reproduce submissions/20260101_a --plugin rank.py --plugin pkg.more"
    )
