"""A log's format is detected from its content, or given; no content causes a traceback."""

import json
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmark.logs.foreign import FORMATS, Format, Found, find, readings
from tasks.errors import UserError
from tests.support.training.logs import start_line, write_log

CONTENTS: dict[Format, str] = {
    "arlarena-bench": json.dumps(start_line()) + "\n",
    "trl": '{\n  "best_metric": null,\n  "log_history": []\n}\n',
    "verl": '{"step": 1, "data": {"a": 1}}\n',
    "wandb": '{"a": 1, "_step": 0}\n',
}
MORE: list[tuple[Format, str]] = [
    ("trl", '{"log_history": []}'),
    ("verl", "hello\n(TaskRunner pid=3) step:1 - a:1\n"),
    ("wandb", "Step,run - a\n0,1\n"),
    ("wandb", '\ufeff"a","_step"\n1,0\n'),
]


@pytest.mark.parametrize(("name", "content"), [*CONTENTS.items(), *MORE])
def test_the_content_tells(tmp_path: Path, name: Format, content: str) -> None:
    path = tmp_path / "any.name"
    path.write_text(content, "utf-8")
    assert find(path) == Found(name, (path,))


def test_an_event_file_tells(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"\x18" + bytes(11) + b"\t" + bytes(8) + b"\x1a\rbrain.Event:2" + bytes(4))
    assert find(path).format == "tensorboard"


@pytest.mark.parametrize(
    "content", ["", "hello\n", "a,b\n1,2\n", '{"step": 1, "a": 2}\n', "{", "[1]", '{"kind": "x"}']
)
def test_what_is_not_sure_is_asked_for(tmp_path: Path, content: str) -> None:
    path = tmp_path / "log"
    path.write_text(content)
    with pytest.raises(UserError, match="choose one with --format"):
        find(path)
    assert find(path, "verl") == Found("verl", (path,))


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        find(tmp_path / "none")
    with pytest.raises(UserError, match=r"has no training_log\.jsonl, trainer_state\.json or"):
        find(tmp_path)
    with pytest.raises(UserError, match="has no verl log; give the file"):
        find(tmp_path, "verl")


def test_folders(tmp_path: Path) -> None:
    state = tmp_path / "trainer_state.json"
    state.write_text(CONTENTS["trl"])
    assert find(tmp_path) == Found("trl", (state,))
    events = [tmp_path / f"events.out.tfevents.{number}.host" for number in (1, 2)]
    for path in events:
        path.write_bytes(b"")
    with pytest.raises(UserError, match="has logs of trl and tensorboard; say which"):
        find(tmp_path)
    assert find(tmp_path, "tensorboard") == Found("tensorboard", tuple(events))
    own = write_log(tmp_path / "own", [start_line()])
    assert find(own.parent) == Found("arlarena-bench", (own,))


def test_our_own_format_has_its_own_reader(tmp_path: Path) -> None:
    path = write_log(tmp_path, [start_line()])
    with pytest.raises(ValueError, match="this project's own format"):
        readings(find(path), {})


PIECES = st.sampled_from(
    ['{"step": 1, "data": {"actor/grad_norm": ', "NaN", "}}", "\n", "step:1 - ", "a:0.5", " - ",
     '{"_step": 1, "a": ', '{"log_history": [', '{"step": 2}', "]", "}", "_step,a\n", "1,2\n", '"',
     "1e999", "-", "\x1b[36m", "\r", "\u2028", "{", "[" * 3000, "np.float64(", ")", "null", ":"]
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=300)
@given(st.lists(PIECES).map("".join) | st.text(), st.sampled_from(FORMATS[1:]), st.booleans())
@example('{"log_history": ' + "[" * 50_000, "trl", True)
@example("_step,a\n" + "1," * 5 + "\n", "wandb", False)
@example("_step\n" + '"' + "x" * 200_000 + '"', "wandb", False)
def test_any_text_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, text: str, name: Format, told: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz"
    path.write_text(text, "utf-8", errors="replace", newline="")
    try:
        found = find(path, name if told else None)
        if found.format != "arlarena-bench":
            readings(found, {})
    except UserError as error:
        assert str(path) in str(error)


@settings(max_examples=200)
@given(st.binary(), st.sampled_from(FORMATS[1:]))
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, name: Format
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz"
    path.write_bytes(content)
    for chosen in (name, None):
        try:
            found = find(path, chosen)
            if found.format != "arlarena-bench":
                readings(found, {})
        except UserError as error:
            assert str(path) in str(error)
