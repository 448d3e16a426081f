"""Rows become curves: order, duplicates, ranges, and non-finite values."""

import math
import re
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmark.logs.foreign import rows, values
from benchmark.logs.foreign.mapping import Meaning, own_words
from benchmark.logs.foreign.rows import LogRow, Reading, RowCollector
from benchmark.logs.foreign.values import (
    NOT_A_NUMBER,
    Value,
    float32,
    json_value,
    parse_json,
    read_text,
    step_of,
    text_value,
)
from benchmark.logs.metrics import FLOAT32_MAX
from tasks.errors import UserError

LOG = Path("run.jsonl")


def collected(
    *lines: tuple[int, Mapping[str, Value]], own: Mapping[str, Meaning] | None = None
) -> Reading:
    collector = RowCollector(LOG, "verl", own or {})
    collector.add_all(
        LogRow(f"line {number}", step, fields) for number, (step, fields) in enumerate(lines, 1)
    )
    return collector.reading("run")


def test_each_number_has_its_own_steps() -> None:
    run = collected(
        (0, {"val/success_rate": 0.25}),
        (1, {"actor/grad_norm": 2.0, "episode/success_rate": 0.5}),
        (2, {"actor/grad_norm": 3.0, "episode/success_rate": None}),
        (2, {"val/success_rate": 0.75}),
    ).run
    assert {name: (c.steps.tolist(), c.values.tolist()) for name, c in run.curves.items()} == {
        "validation/success": ([0, 2], [0.25, 0.75]),
        "policy/grad_norm": ([1, 2], [2.0, 3.0]),
        "rollout/success": ([1], [0.5]),
    }
    assert (run.name, run.source, run.recipe, run.seed) == ("run", "verl", None, None)
    assert (run.tokens, run.seconds, run.unknown) == (None, None, ())
    assert "policy/entropy" in run.missing
    assert "policy/grad_norm" not in run.missing


def test_what_is_not_finite_was_measured() -> None:
    curve = collected(
        (1, {"actor/grad_norm": math.nan}), (2, {"actor/grad_norm": math.inf})
    ).run.curves["policy/grad_norm"]
    assert math.isnan(curve.values[0])
    assert curve.values[1] == math.inf
    assert curve.finite.steps.size == 0


def test_a_step_that_goes_back_names_file_and_line() -> None:
    with pytest.raises(
        UserError, match=r"run\.jsonl, line 2: step 3 comes after step 4; a resumed run"
    ):
        collected((4, {"mine": 1.0}), (3, {"other": 1.0}))


def test_a_value_that_stands_twice_counts_once() -> None:
    found = collected(
        (1, {"actor/grad_norm": 2.0, "actor/entropy": math.nan}),
        (1, {"actor/grad_norm": 2.0, "actor/entropy": math.nan}),
    )
    assert found.run.curves["policy/grad_norm"].steps.tolist() == [1]
    assert found.notes == ("2 values appear twice at a step, and counted once",)
    with pytest.raises(UserError, match=r"line 2: 'actor/grad_norm' of step 1 .* as 2 and 2\.5"):
        collected((1, {"actor/grad_norm": 2.0}), (1, {"actor/grad_norm": 2.5}))
    with pytest.raises(UserError, match="appears twice"):
        collected((1, {"actor/grad_norm": 2.0}), (1, {"actor/grad_norm": math.nan}))


@pytest.mark.parametrize("rate", [1.5, 45.0, -0.1, 1 + 2e-6])
def test_a_share_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(UserError, match=r"line 1: 'val/success_rate' is .* not in percent"):
        collected((0, {"val/success_rate": rate}))


def test_rounding_is_no_fault() -> None:
    run = collected((0, {"val/success_rate": 1 + 1e-7}), (1, {"val/success_rate": -1e-7})).run
    assert run.curves["validation/success"].values.tolist() == [1.0, 0.0]


def test_a_negative_norm_is_refused() -> None:
    with pytest.raises(UserError, match="-2, but policy/grad_norm cannot be that"):
        collected((1, {"actor/grad_norm": -2.0}))


def test_text_under_a_name_with_a_meaning_is_refused() -> None:
    with pytest.raises(UserError, match="'actor/grad_norm' is not a number"):
        collected((1, {"actor/grad_norm": NOT_A_NUMBER}))
    assert collected((1, {"a table": NOT_A_NUMBER})).run.unknown == ("a table",)


def test_of_two_names_for_one_number_one_counts() -> None:
    found = collected(
        (1, {"actor/entropy": 0.25}),
        (2, {"actor/entropy_loss": 0.5 + 1e-8, "actor/entropy": 0.5}),
        (3, {"actor/entropy_loss": math.nan, "actor/entropy": math.nan}),
    )
    curve = found.run.curves["policy/entropy"]
    assert (curve.steps.tolist(), curve.values.tolist()[:2]) == ([1, 2, 3], [0.25, 0.5])
    assert found.run.unknown == ("actor/entropy_loss",)
    assert found.because == {"actor/entropy_loss": "actor/entropy says the same"}
    alone = collected((1, {"actor/entropy_loss": 0.5, "actor/entropy": None}))
    assert alone.run.curves["policy/entropy"].values.tolist() == [0.5]
    assert alone.run.unknown == ()


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        # The table's first name takes precedence, whichever comes first in the log.
        (
            {"mismatch/k3_kl": 0.5},
            {"rollout_corr/k3_kl": 1e-5},
            "run.jsonl: 'rollout_corr/k3_kl' and 'mismatch/k3_kl' are both read as engine/k3, but "
            "at step 7 they are 1e-05 and 0.5; choose one, as in "
            "--map 'engine/k3=rollout_corr/k3_kl'",
        ),
        ({"timing_s/step": 3.0}, {"perf/time_per_step": 9.0}, "at step 7 they are 3 and 9"),
        ({"timing_s/step": math.inf}, {"perf/time_per_step": 9.0}, "at step 7 they are inf and 9"),
        ({"timing_s/step": 9.0}, {"perf/time_per_step": math.nan}, "they are 9 and nan"),
        ({"timing_s/step": 9.0}, {"perf/time_per_step": 9.0001}, "they are 9 and 9.0001"),
        (
            {"val-core/math/acc/mean@16": 0.25},
            {"val-core/math/acc/mean@1": 0.5},
            "at step 7 they are 0.5 and 0.25; choose one, as in "
            "--map 'validation/success@math=val-core/math/acc/mean@1'",
        ),
    ],
)
def test_two_names_for_one_number_that_differ_are_asked_for(
    one: dict[str, float], other: dict[str, float], message: str
) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        collected((7, one | other))


def test_what_only_the_other_name_says_is_not_dropped() -> None:
    lines: list[tuple[int, dict[str, Value]]] = [
        (1, {"timing_s/step": 3.0, "perf/time_per_step": 3.0}),
        (2, {"perf/time_per_step": 4.0}),
    ]
    with pytest.raises(UserError, match="at step 2 they are missing and 4; choose one"):
        collected(*lines)
    own = own_words(["seconds/total=perf/time_per_step"])
    assert collected(*lines, own=own).run.curves["seconds/total"].values.tolist() == [3.0, 4.0]


def test_two_words_of_the_user_for_one_number_must_agree() -> None:
    own = own_words(["policy/entropy=a", "policy/entropy=b"])
    with pytest.raises(UserError, match="'a' and 'b' are both read as policy/entropy"):
        collected((1, {"a": 0.5, "b": 0.25}), own=own)


def test_the_word_of_the_user_goes_first() -> None:
    own = own_words(["policy/entropy=actor/entropy_loss", "validation/success=mine"])
    found = collected((1, {"actor/entropy": 0.25, "actor/entropy_loss": 0.5, "mine": 1.0}), own=own)
    assert found.run.curves["policy/entropy"].values.tolist() == [0.5]
    assert found.run.curves["validation/success"].values.tolist() == [1.0]
    assert found.run.unknown == ("actor/entropy",)
    reason = "actor/entropy_loss was chosen (--map)"
    assert found.because == {"actor/entropy": reason}
    assert found.read_as["mine"].provided == "--map is right"


def test_several_panels_have_their_names() -> None:
    one = {"val-core/math/acc/mean@1": 0.5}
    assert list(collected((0, one)).run.curves) == ["validation/success"]
    run = collected((0, {**one, "val-core/code/acc/mean@1": 0.25, "actor/grad_norm": 1.0})).run
    assert list(run.curves) == [
        "validation/success@math",
        "validation/success@code",
        "policy/grad_norm",
    ]


def test_compute_is_summed_only_where_every_step_is_known() -> None:
    whole = collected((1, {"timing_s/step": 2.0}), (2, {"timing_s/step": 3.0})).run
    assert whole.seconds is not None
    assert whole.seconds.values.tolist() == [2.0, 5.0]
    gap = collected((1, {"timing_s/step": 2.0}), (3, {"timing_s/step": 3.0})).run
    late = collected((5, {"timing_s/step": 2.0})).run
    lost = collected((1, {"timing_s/step": math.nan}), (2, {"timing_s/step": 3.0})).run
    assert gap.seconds is late.seconds is lost.seconds is None


def test_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="a name of 301 characters"):
        collected((1, {"x" * 301: 1.0}))
    monkeypatch.setattr(rows, "MAX_FIELDS", 2)
    assert len(collected((1, {"a": 1.0, "b": 1.0}), (2, {"a": 1.0})).run.unknown) == 2
    with pytest.raises(UserError, match="line 2: more than 2 different names"):
        collected((1, {"a": 1.0, "b": 1.0}), (2, {"c": 1.0}))


@given(st.integers() | st.floats())
@example(2**53 + 1)
def test_a_number_is_what_float32_can_hold(value: float) -> None:
    found = float32(value)
    if abs(value) <= FLOAT32_MAX:
        assert found == float(value)
    elif abs(value) > FLOAT32_MAX:
        assert found == (math.inf if value > 0 else -math.inf)
    else:
        assert math.isnan(found)


@given(st.floats(width=32))
def test_numbers_as_text_are_those_that_were_written(value: float) -> None:
    found = text_value(repr(value))
    assert isinstance(found, float)
    assert math.isnan(found) if math.isnan(value) else found == value


@pytest.mark.parametrize("text", ["1_000", "\u0661", "0x10", "1e", "one", " 1", "1 ", "--1", "."])
def test_other_text_is_no_number(text: str) -> None:
    assert text_value(text) is NOT_A_NUMBER


def test_values_of_json() -> None:
    assert json_value(None) is None
    assert json_value(2) == 2.0
    assert json_value(10**400) == math.inf
    for other in (True, "1", [1], {"a": 1}):
        assert json_value(other) is NOT_A_NUMBER
    assert text_value("") is None


@pytest.mark.parametrize("step", [-1, 0.5, 10**9 + 1, True, None, "x", math.nan, [1]])
def test_a_step_is_a_whole_number(step: object) -> None:
    with pytest.raises(ValueError, match="not an integer"):
        step_of(step)


def test_steps_may_be_written_as_numbers_of_any_kind() -> None:
    assert [step_of(step) for step in (0, 3.0, "12", "7.0", 10**9)] == [0, 3, 12, 7, 10**9]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "b": 2, "a": 1}', "'a' appears twice in one object"),
        ("[" * 100_000, "is nested too deeply"),
        ("{", "not JSON"),
        ('{"a": ' + "9" * 5000 + "}", "a whole number has 5,000 digits"),
    ],
)
def test_json_that_says_two_things_or_none_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_json(text)


def test_files_are_bounded_plain_and_utf8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"\xef\xbb\xbffine\n")
    assert read_text(path) == "fine\n"
    path.write_bytes(b"one\ntwo \xff\n")
    with pytest.raises(UserError, match="line 2: is not UTF-8"):
        read_text(path)
    with pytest.raises(UserError, match="cannot be read"):
        read_text(tmp_path)
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(UserError, match="cannot be read"):
        read_text(link)
    monkeypatch.setattr(values, "MAX_BYTES", 5)
    with pytest.raises(UserError, match="longer than 5 bytes"):
        read_text(path)


def test_many_sessions_of_many_columns_take_time_for_their_values_alone(tmp_path: Path) -> None:
    """Every new session used to look at every column."""
    collector = RowCollector(tmp_path / "log", "tensorboard", {})
    names = {f"validation/success/panel{number}": 0.5 for number in range(9_000)}
    collector.add(LogRow("record 1", 1, names))
    began = time.process_time()
    for _ in range(20_000):
        collector.resume_at(2)
    collector.add(LogRow("record 2", 2, dict.fromkeys(list(names)[:3], 0.25)))
    collector.resume_at(2)
    assert time.process_time() - began < 5
    found = collector.reading("run")
    assert {tuple(points.values.tolist()) for points in found.run.curves.values()} == {(0.5,)}
    assert found.notes == ("3 values were made again by a resumed run",)
