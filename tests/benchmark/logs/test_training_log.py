"""The training log: output can be read, input is validated, and a kill loses at most one line."""

import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmark.logs.curves import run_curves_of
from benchmark.logs.groups import plotted, series_of
from benchmark.logs.lines import MAX_LINE
from benchmark.logs.metrics import FLOAT32_MAX, METRICS, VALIDATION_METRICS
from benchmark.logs.training_log import (
    LOG,
    MAX_BYTES,
    TrainingLogWriter,
    find_log,
    read_training_log,
    truncate_after,
)
from benchmark.stability.collapse import collapse_update
from benchmark.stability.runs import run_stability
from tasks.errors import UserError
from tasks.seeding import sha256_text
from tests.support.training.logs import (
    resume_line,
    start_line,
    update_line,
    validation_line,
    write_log,
)


def test_every_metric_has_a_unit_and_a_line_that_fits_a_plot() -> None:
    for name, metric in {**METRICS, **VALIDATION_METRICS}.items():
        assert re.fullmatch(r"[a-z_]+/[a-z0-9_]+", name)
        assert metric.unit and 0 < len(metric.text) <= 56, name
        assert metric.range[0] < metric.range[1]
    assert METRICS["rollout/success"].range == (0.0, 1.0)
    assert METRICS["policy/loss"].range == (-FLOAT32_MAX, FLOAT32_MAX)
    assert METRICS["critic/explained_variance"].range == (-FLOAT32_MAX, 1.0)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / LOG
    with TrainingLogWriter(path) as writer:
        assert writer.log is None
        writer.append(start_line("sampo", seed=3))
        writer.append(validation_line(0, solved=64))
        written = writer.append(update_line(1, {"rollout/success": 0.25, "policy/loss": -1.5}))
        writer.append(update_line(2, {"rollout/success": 0.5}))
        writer.append(validation_line(2, solved=192))
    assert written["rollout/success"] == 0.25
    assert written["kl_old/mean"] is None  # missing values are null, and every name is present
    assert set(METRICS) < set(written) and "nonfinite" not in written
    log = read_training_log(path)
    assert (log.start.recipe, log.start.seed, log.start.init.name) == ("sampo", 3, "tiny-sokoban")
    assert [line.update for line in log.updates] == [1, 2]
    assert log.series("rollout/success") == [0.25, 0.5]
    assert log.series("policy/loss") == [-1.5, None]
    assert log.panels == ("builtin",)
    curve = [(line.update, line.success) for line in log.of_panel("builtin")]
    assert curve == [(0, 0.25), (2, 0.75)]
    assert not log.torn
    with pytest.raises(KeyError):
        log.series("rollout/sucess")


def test_numbers_that_are_not_finite_are_null_and_named(tmp_path: Path) -> None:
    path = tmp_path / LOG
    values = {
        "policy/loss": math.nan,
        "policy/grad_norm": torch.tensor(math.inf),
        "ratio/max": 1e39,
        "kl_old/mean": torch.tensor(0.25),
        "rollout/episodes": 64,
    }
    with TrainingLogWriter(path) as writer:
        writer.append(start_line())
        written = writer.append(update_line(1, values))
    assert written["nonfinite"] == ["policy/loss", "policy/grad_norm", "ratio/max"]
    assert written["policy/loss"] is None and written["kl_old/mean"] == 0.25
    (line,) = read_training_log(path).updates
    assert line.values == {"kl_old/mean": 0.25, "rollout/episodes": 64}
    assert line.nonfinite == ("policy/loss", "policy/grad_norm", "ratio/max")
    assert b"NaN" not in path.read_bytes() and b"Infinity" not in path.read_bytes()


def test_rounding_is_mended_and_more_is_refused(tmp_path: Path) -> None:
    with TrainingLogWriter(tmp_path / LOG) as writer:
        writer.append(start_line())
        written = writer.append(update_line(1, {"ratio/ess": 1.0000001, "kl_old/mean": -1e-8}))
        assert (written["ratio/ess"], written["kl_old/mean"]) == (1.0, 0.0)
        with pytest.raises(ValueError, match="ratio/ess: .* less than or equal to 1"):
            writer.append(update_line(2, {"ratio/ess": 1.001}))
        writer.append(update_line(2))
    assert [line.update for line in read_training_log(tmp_path / LOG).updates] == [1, 2]


@settings(max_examples=50)
@given(
    st.dictionaries(
        st.sampled_from(["policy/loss", "rollout/return", "rollout/score", "engine/k1"]),
        st.none() | st.floats() | st.integers(),
    )
)
def test_any_number_comes_back_or_is_named(values: dict[str, float | None]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / LOG
        with TrainingLogWriter(path) as writer:
            writer.append(start_line())
            writer.append(update_line(1, values))
        (line,) = read_training_log(path).updates
    measured = {name: value for name, value in values.items() if value is not None}
    # Integers are parsed as floats.
    finite = {name: float(value) for name, value in measured.items() if abs(value) <= FLOAT32_MAX}
    assert line.values == finite
    assert set(line.nonfinite) == set(measured) - set(finite)


def test_a_start_may_name_plugins(tmp_path: Path) -> None:
    named = {f"_rank{n}.py": sha256_text(str(n)) for n in range(16)}
    path = write_log(tmp_path, [start_line(plugins=named)])
    assert read_training_log(path).start.plugins == named
    assert read_training_log(write_log(tmp_path, [start_line()])).start.plugins == {}


def test_a_log_begins_with_its_start(tmp_path: Path) -> None:
    with TrainingLogWriter(tmp_path / LOG) as writer:
        with pytest.raises(ValueError, match="only the first line of a log"):
            writer.append(update_line(1))
        with pytest.raises(ValueError, match="kind: must be start, update, validation or resume"):
            writer.append({"kind": "end"})
    assert (tmp_path / LOG).read_bytes() == b""


def test_two_processes_cannot_write_one_log(tmp_path: Path) -> None:
    path = tmp_path / LOG
    with TrainingLogWriter(path) as writer:
        writer.append(start_line())
        writer.append(update_line(1))
        with pytest.raises(UserError, match="is being written by another process"):
            TrainingLogWriter(path)
        with pytest.raises(UserError, match="is being written by another process"):
            truncate_after(path, 0, 0)
    TrainingLogWriter(path).close()


@pytest.mark.slow
def test_a_full_disk_is_said_and_nothing_is_lost(tmp_path: Path) -> None:
    """A file size limit simulates a full disk: the kernel rejects the write at the same point."""
    script = f"""
import resource, signal, sys
from pathlib import Path
from benchmark.logs.training_log import TrainingLogWriter
from tasks.errors import UserError
from tasks.seeding import sha256_text
from tests.support.training.logs import start_line, update_line
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
writer = TrainingLogWriter(Path({str(tmp_path / LOG)!r}))
writer.append(start_line())
writer.append(update_line(1))
size = writer.path.stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, size + 100))
try:
    writer.append(update_line(2))
except UserError as error:
    assert "cannot be written: File too large" in str(error), error
    assert writer.path.stat().st_size == size
    sys.exit(7)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 7, done.stderr
    assert len(read_training_log(tmp_path / LOG).updates) == 1


def test_a_torn_last_line_is_dropped_only_when_asked(tmp_path: Path) -> None:
    path = write_log(tmp_path, [start_line(), update_line(1), update_line(2)])
    whole = path.read_bytes()
    torn = whole[: whole.rindex(b"seconds_total")]
    path.write_bytes(torn)
    with pytest.raises(UserError, match="line 3: is incomplete; resume the training run to fix it"):
        read_training_log(path)
    with pytest.raises(UserError, match="line 3: is incomplete"):
        TrainingLogWriter(path)
    log = read_training_log(path, allow_torn=True)
    assert log.torn and [line.update for line in log.updates] == [1]
    assert truncate_after(path, 1, 1) == 1
    assert path.read_bytes() == torn[: torn.rindex(b"\n") + 1]


def test_a_broken_line_before_the_last_is_never_dropped(tmp_path: Path) -> None:
    path = write_log(tmp_path, [start_line(), update_line(1), update_line(2)])
    first, _, last = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + b'{"kind": "upd\n' + last)
    for read in (read_training_log, lambda path: read_training_log(path, allow_torn=True)):
        with pytest.raises(UserError, match=r"training_log.jsonl, line 2: not JSON"):
            read(path)
    with pytest.raises(UserError, match="line 2: not JSON"):
        truncate_after(path, 2, 2)


def test_numbers_of_single_tasks_are_kept_and_make_curves(tmp_path: Path) -> None:
    path, own = tmp_path / LOG, {"rollout/success@sokoban": 1 + 1e-8, "rollout/success@webshop": 0}
    with TrainingLogWriter(path) as writer:
        writer.append(start_line())
        writer.append(update_line(1, own))
    log = read_training_log(path)
    assert log.series("rollout/success@sokoban") == [1.0]
    curves = run_curves_of(log)
    assert curves.curves["rollout/success@webshop"].values.tolist() == [0.0]
    (what,) = plotted(["rollout/success@sokoban"], [log])
    assert series_of(log, what).y.tolist() == [1.0]
    # This log claims a single task, and is plotted as such.
    assert [plot.name for plot in plotted(["rollout/success"], [log])] == ["rollout/success"]


def test_rollouts_of_a_mixture_are_drawn_of_each_task_too(tmp_path: Path) -> None:
    path = tmp_path / LOG
    with TrainingLogWriter(path) as writer:
        writer.append(start_line() | {"task": "sokoban+webshop"})
        writer.append(update_line(1, {"rollout/success@sokoban": 0.5}))
    plots = plotted(["rollout/success", "policy/entropy"], [read_training_log(path)])
    tasks = ["rollout/success@sokoban", "rollout/success@webshop"]
    assert [plot.name for plot in plots] == ["rollout/success", *tasks, "policy/entropy"]


def test_success_of_a_run_on_several_tasks_is_the_mean_over_them(tmp_path: Path) -> None:
    """Sokoban falls from 8 of 8 to 0, TIR Math stays at 2; update 3 was not played on both."""
    lines = [start_line(task="sokoban+tir_math")]
    for update, solved in enumerate((8, 0, 0, 0, 0)):
        if update:
            lines.append(update_line(update))
        lines.append(validation_line(update, solved, 8, panel="sokoban.builtin"))
        if update != 3:
            lines.append(validation_line(update, 2, 8, panel="tir_math.builtin"))
    log = read_training_log(write_log(tmp_path / LOG, lines))
    means = [(0, 0.625), (1, 0.125), (2, 0.125), (4, 0.125)]
    assert log.over_tasks("success") == means
    curve = run_curves_of(log).curves["validation/success"]
    assert list(zip(curve.steps.tolist(), curve.values.tolist(), strict=True)) == means
    assert run_stability(run_curves_of(log)).success_curve == "validation/success"
    # Smoothed 1, 0.5, ... and 0.625, 0.375, 0.29, ...: half of the first is lost after 1 and 2.
    assert (collapse_update(log, "sokoban.builtin"), collapse_update(log)) == (1, 2)
    assert collapse_update(log, "tir_math.builtin") is None


BAD: list[tuple[dict[str, Any], str]] = [
    (update_line(2, {"rollout/sucess": 0.5}), "rollout/sucess: Extra inputs are not permitted"),
    (update_line(2, {"rollout/success@": 0.5}), "rollout/success@: Extra inputs"),
    (update_line(2, {"rollout/success@a b": 0.5}), "rollout/success@a b: Extra inputs"),
    (update_line(2, {"policy/loss@sokoban": 0.5}), "policy/loss@sokoban: Extra inputs"),
    (update_line(2, {"rollout/success@sokoban": 1.5}), "rollout/success@sokoban: must be from 0"),
    (update_line(2, {"rollout/success@sokoban": "x"}), "rollout/success@sokoban: .*valid number"),
    (update_line(2, {"rollout/success": 1.5}), "rollout/success: .* less than or equal to 1"),
    (update_line(2, {"rollout/success": "0.5"}), "rollout/success: .* valid number"),
    (update_line(2, {"rollout/success": True}), "rollout/success: .* valid number"),
    (update_line(2, {"seconds/rollout": -1.0}), "seconds/rollout: .* greater than or equal to 0"),
    (update_line(2, {"policy/loss": 1e308}), "policy/loss: .* less than or equal to 340"),
    (update_line(2, {"policy/loss": 10**400}), "policy/loss: "),
    (update_line(2, {"policy/loss": [1.0]}), "policy/loss: .* valid number"),
    (update_line(2, nonfinite=["x"]), "nonfinite.0: "),
    (update_line(2, nonfinite=[]), "nonfinite: .* at least 1"),
    (update_line(2, {"policy/loss": 1.0}, nonfinite=["policy/loss"]), "nonfinite: .* a number"),
    (update_line(2, nonfinite=["ratio/max", "ratio/max"]), "nonfinite: .* twice"),
    (update_line(1), "update: update 1 comes after update 1"),
    (update_line(0), "update: .* greater than or equal to 1"),
    (update_line(2) | {"update": "2"}, "update: .* valid integer"),
    (update_line(2, seconds_total=4.0), "seconds_total: 4.0 comes after 5.0"),
    (update_line(2, kind="step"), "kind: must be start, update, validation or resume"),
    (start_line(), "kind: only the first line of a log is a start"),
    (validation_line(0), "update: 0 comes after update 1"),
    (validation_line(1, fingerprint="abc"), "fingerprint: "),
    (validation_line(1, success=0.9), ".* outside its interval"),
    (validation_line(1, success=1.1), "success: .* less than or equal to 1"),
    (validation_line(1) | {"episodes": 0}, "episodes: .* greater than or equal to 1"),
    (validation_line(1, panel="../builtin"), "panel: "),
    (validation_line(1, note="x"), "note: Extra inputs"),
    (resume_line(1) | {"seed": 1}, "seed: Extra inputs"),
    (resume_line(1) | {"engine": {"size": 2**64}}, "engine: "),
    (resume_line(-1), "update: .* greater than or equal to 0"),
]


@pytest.mark.parametrize(("line", "message"), BAD)
def test_a_bad_line_is_refused_with_its_place(
    line: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = write_log(tmp_path, [start_line(), update_line(1), line])
    with pytest.raises(UserError, match=rf"training_log\.jsonl, line 3: {message}") as caught:
        read_training_log(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 2}, "schema_version: "),
        ({"recipe": "<b>grpo</b>"}, "recipe: "),
        ({"recipe": "gr\u202epo"}, "recipe: "),
        ({"created": "yesterday"}, "created: "),
        ({"seed": -1}, "seed: "),
        ({"init": {"name": "x"}}, "init.kind: "),
        ({"extra": 1}, "extra: Extra inputs"),
        ({"plugins": None}, "plugins: "),
        ({"plugins": {"rank.py": "a" * 63}}, "plugins.rank.py: "),
        ({"plugins": {"../rank.py": "a" * 64}}, r"plugins.../rank.py.\[key\]: "),
        ({"plugins": {f"{n}.py": "a" * 64 for n in range(17)}}, "plugins: .* at most 16 items"),
    ],
)
def test_a_bad_start_is_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = write_log(tmp_path, [start_line(**change)])
    with pytest.raises(UserError, match=f"line 1: {message}"):
        read_training_log(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n", "line 1: not JSON"),
        (b"[]\n", "line 1: kind"),
        (
            b'{"kind": "update", "update": 1, "seconds_total": NaN}\n',
            "line 1: not JSON: NaN at column 50, where JSON has null$",
        ),
        (
            b'{"kind": "update", "update": 1, "seconds_total": -Infinity}\n',
            "line 1: not JSON: Infinity at column 51, where JSON has null$",
        ),
        (b'{"kind": "upd\n', "line 1: not JSON: EOF while parsing a string at column 13$"),
        (b'{"kind": "update", "update": 1, "seconds_total": 1}\n', "line 1: kind: only the first"),
        (b"\xff\xfe\n", "line 1: not JSON"),
        (b"[" * 100_000 + b"\n", "line 1: not JSON"),
        (b" " * (MAX_LINE + 1) + b"\n", "line 1: longer than 1048576 bytes"),
        (b" " * (MAX_BYTES + 1), "longer than 67108864 bytes"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_foreign_bytes_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / LOG
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_training_log(path)


def test_panels_keep_their_own_order_and_protocol(tmp_path: Path) -> None:
    other = sha256_text("two_boxes")
    lines = [
        start_line(),
        validation_line(0),
        validation_line(0, panel="two_boxes", fingerprint=other),
        update_line(1),
        validation_line(1, panel="two_boxes", fingerprint=other),
        validation_line(1),
    ]
    log = read_training_log(write_log(tmp_path, lines))
    assert log.panels == ("builtin", "two_boxes")
    assert [line.update for line in log.of_panel("two_boxes")] == [0, 1]
    lines.append(validation_line(2, fingerprint=other))
    with pytest.raises(UserError, match="line 7: fingerprint: .* another protocol before"):
        read_training_log(write_log(tmp_path, lines))


def test_a_validation_may_stand_before_or_after_its_update(tmp_path: Path) -> None:
    before = [start_line(), validation_line(1), update_line(1), update_line(2)]
    assert len(read_training_log(write_log(tmp_path, before)).validations) == 1
    late = [start_line(), update_line(1), validation_line(2), update_line(1)]
    with pytest.raises(UserError, match="line 4: update: update 1 comes after"):
        read_training_log(write_log(tmp_path, late))


def test_find_log_takes_files_and_folders(tmp_path: Path) -> None:
    path = write_log(tmp_path / "run", [start_line()])
    assert find_log(path) == find_log(path.parent) == path
    with pytest.raises(UserError, match="has no training_log.jsonl"):
        find_log(tmp_path)
    with pytest.raises(UserError, match="does not exist"):
        find_log(tmp_path / "x")


def test_links_are_not_followed(tmp_path: Path) -> None:
    target = write_log(tmp_path / "run", [start_line()])
    link = tmp_path / LOG
    link.symlink_to(target)
    with pytest.raises(UserError, match="cannot be read"):
        read_training_log(link)
    with pytest.raises(UserError, match="cannot be written"):
        TrainingLogWriter(link)


def test_a_folder_without_a_log_names_the_files_that_may_be_some(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="; choose a training log or a folder with one$"):
        find_log(tmp_path)
    for name in ("b.jsonl", "a.jsonl.zst"):
        (tmp_path / name).touch()
    with pytest.raises(UserError, match=r"; choose a file, such as a\.jsonl\.zst, b\.jsonl$"):
        find_log(tmp_path)
