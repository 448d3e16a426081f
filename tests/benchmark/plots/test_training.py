"""Curves of training runs: grouping, contents of the plots, and reproducible files."""

import html
import re
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmark.cli.main import main
from benchmark.logs.groups import Plotted, Series, band_of, curves_of, plotted, series_of
from benchmark.logs.training_log import TrainingLog, read_training_log
from benchmark.plots.style import style_axes
from benchmark.plots.training import figure_bytes
from benchmark.plots.training_page import training_page
from benchmark.stability.collapse import collapse_update
from benchmark.stability.run_end import collapsed_at
from tasks.errors import UserError
from tasks.seeding import sha256_text
from tasks.texts import printable
from tests.benchmark.stability.command import LATE_LOSS, run_of
from tests.support.training.logs import (
    Line,
    run_lines,
    start_line,
    update_line,
    validation_line,
    write_log,
)

SUCCESS = Plotted("validation/success", "builtin")


def log_of(folder: Path, *lines: Line) -> TrainingLog:
    return read_training_log(write_log(folder, lines))


def starts(root: Path, *lines: Line) -> list[TrainingLog]:
    return [log_of(root / f"run-{number}", line) for number, line in enumerate(lines)]


def series(x: list[float], y: list[float]) -> Series:
    return Series(np.array(x), np.array(x), np.array(y))


@pytest.fixture
def runs(tmp_path: Path) -> list[TrainingLog]:
    """Three seeds of grpo, one of which collapses and ends early, and one of sampo."""
    return [
        log_of(tmp_path / "grpo-0", *run_lines("grpo", 0, updates=12)),
        log_of(tmp_path / "grpo-1", *run_lines("grpo", 1, updates=9, collapse_at=3)),
        log_of(tmp_path / "grpo-2", *run_lines("grpo", 2, updates=12)),
        log_of(tmp_path / "sampo-0", *run_lines("sampo", 0, updates=12)),
    ]


def test_seeds_of_one_recipe_are_one_curve(tmp_path: Path) -> None:
    logs = starts(tmp_path, start_line(seed=2), start_line("sampo"), start_line(seed=0))
    grpo, sampo = curves_of(logs)
    assert (grpo.label, [run.start.seed for run in grpo.runs]) == ("grpo", [0, 2])
    assert (sampo.label, len(sampo.runs)) == ("sampo", 1)


def test_other_settings_are_another_curve_that_says_so(tmp_path: Path) -> None:
    slow = {"recipe": "grpo", "seed": 0, "optimizer": {"learning_rate": 1e-4}}
    many = {"recipe": "grpo", "optimizer": {"learning_rate": 1e-4, "a": 1, "b": [2]}}
    two = starts(tmp_path / "two", start_line(), start_line(configuration=slow))
    assert [c.label for c in curves_of(two)] == [
        "grpo, learning_rate 0.0003",
        "grpo, learning_rate 0.0001",
    ]
    three = starts(tmp_path / "three", start_line(), start_line(configuration=many))
    assert [c.label for c in curves_of(three)][1] == "grpo, learning_rate 0.0001, a 1, \u2026"
    task = starts(tmp_path / "task", start_line(), start_line(task="webshop"))
    assert [c.label for c in curves_of(task)] == ["grpo, task sokoban", "grpo, task webshop"]
    code = [start_line("rank", plugins={"rank.py": digit * 64}) for digit in "ab"]
    assert [c.label for c in curves_of(starts(tmp_path / "code", *code))] == [
        f"rank, plugins rank.py {digit * 15}\u2026" for digit in "ab"
    ]


def test_settings_that_move_no_result_make_no_other_curve(tmp_path: Path) -> None:
    often = {"checkpoint_every": 1, "optimization": {"micro_batch_tokens": 4096, "epochs": 1}}
    rarely = {"checkpoint_every": 5, "optimization": {"micro_batch_tokens": 8192, "epochs": 1}}
    lines = [start_line(seed=n, configuration=each) for n, each in enumerate((often, rarely))]
    (curve,) = curves_of(starts(tmp_path, *lines))
    assert (curve.label, len(curve.runs)) == ("grpo", 2)


def test_runs_are_named_by_as_much_of_their_folders_as_it_takes(tmp_path: Path) -> None:
    logs = [log_of(tmp_path / name, start_line()) for name in ("a/run", "b/run", "b/x.jsonl")]
    assert [c.label for c in curves_of(logs[:2], by="run")] == ["a/run", "b/run"]
    assert [c.label for c in curves_of(logs[1:], by="run")] == ["run", "x"]


def test_a_run_counts_once(tmp_path: Path) -> None:
    one, same_seed = starts(tmp_path, start_line(), start_line())
    with pytest.raises(UserError, match="is given twice"):
        curves_of([one, one])
    with pytest.raises(UserError, match="same recipe, settings and seed"):
        curves_of([one, same_seed])
    assert len(curves_of([one, same_seed], by="run")) == 2


def test_series_lie_along_updates_tokens_or_seconds(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        start_line(),
        validation_line(0, solved=64),
        update_line(1, {"tokens/response": 100, "policy/entropy": 0.5}),
        update_line(2, {"tokens/response": 50, "policy/entropy": None}),
        update_line(3, {"tokens/response": 25, "policy/entropy": 0.25}),
        validation_line(3, solved=128, seconds_total=17.0),
    )
    entropy = Plotted("policy/entropy")
    assert series_of(log, entropy).x.tolist() == [1, 3]
    assert series_of(log, entropy).y.tolist() == [0.5, 0.25]
    assert series_of(log, entropy, "tokens").x.tolist() == [100, 175]
    assert series_of(log, entropy, "seconds").x.tolist() == [5, 15]
    assert series_of(log, SUCCESS, "tokens").x.tolist() == [0, 175]
    assert series_of(log, SUCCESS, "seconds").x.tolist() == [0, 17]
    assert series_of(log, SUCCESS).y.tolist() == [0.25, 0.5]


def test_tokens_that_were_not_counted_are_not_guessed(tmp_path: Path) -> None:
    log = log_of(tmp_path, start_line(), update_line(1, {"tokens/response": 5}), update_line(2))
    with pytest.raises(UserError, match=r"lacks tokens/response of update 2; use --x updates"):
        series_of(log, Plotted("policy/loss"), "tokens")


def test_a_band_spans_the_runs_where_all_have_values() -> None:
    band = band_of(
        [series([0, 2, 4], [0, 2, 4]), series([0, 1, 2], [3, 5, 3]), series([1, 4], [1, 1])]
    )
    assert band is not None
    # The third starts at 1, the second ends at 2; the first is 1 between 0 and 2.
    assert band.x.tolist() == [1, 2]
    assert band.low.tolist() == [1, 1]
    assert band.middle.tolist() == [1, 2]
    assert band.high.tolist() == [5, 3]
    assert band_of([series([0, 1], [0, 0]), series([2, 3], [0, 0])]) is None
    assert band_of([series([0, 1], [0, 0]), series([], [])]) is None


def test_the_collapse_is_told_in_updates(tmp_path: Path) -> None:
    # Every fifth update is validated; means .5 .5 .5 .33 .17, half of the best at .25.
    solved = [128, 128, 128, 0, 0]
    lines = [validation_line(5 * n, solved=s) for n, s in enumerate(solved)]
    assert collapse_update(log_of(tmp_path / "a", start_line(), *lines)) == 20
    assert collapse_update(log_of(tmp_path / "b", start_line(), *lines[:3])) is None
    assert collapse_update(log_of(tmp_path / "c", start_line())) is None


def test_a_run_that_diverged_has_collapsed_where_it_ended(tmp_path: Path) -> None:
    start = start_line()
    start["configuration"]["optimization"] = {"max_skipped": 4}
    steps = {"policy/optimizer_steps": 0, "policy/skipped_steps": 4}
    validations = [validation_line(n, solved=s) for n, s in enumerate((128, 128))]
    log = log_of(tmp_path / "a", start, validations[0], update_line(1, steps), validations[1])
    assert collapse_update(log) is None and collapsed_at(log) == 1
    curves = curves_of([log])
    assert "<!-- grpo (collapsed) -->" in figure_bytes(curves, [SUCCESS]).decode()
    assert '<td class="bad">update 1</td>' in training_page(curves, b"<svg/>")


def test_metrics_are_named_as_in_the_log(runs: list[TrainingLog]) -> None:
    assert plotted(["policy/entropy", "validation/success", "policy/entropy"], runs) == [
        Plotted("policy/entropy"),
        SUCCESS,
    ]
    with pytest.raises(UserError, match="no metric 'policy/entrpy'.*did you mean policy/entropy"):
        plotted(["policy/entrpy"], runs)


def test_every_panel_has_its_plot_and_one_protocol(tmp_path: Path) -> None:
    other = sha256_text("other")
    one = log_of(tmp_path / "1", start_line(), validation_line(0), validation_line(0, panel="two"))
    two = log_of(tmp_path / "2", start_line(seed=1), validation_line(0, fingerprint=other))
    assert [p.panel for p in plotted(["validation/success"], [one])] == ["builtin", "two"]
    with pytest.raises(UserError, match="validated builtin under different protocols"):
        plotted(["validation/success"], [one, two])
    assert plotted(["policy/loss"], [one, two]) == [Plotted("policy/loss")]


def test_panels_of_two_tasks_are_two_whatever_they_are_called(tmp_path: Path) -> None:
    shop = validation_line(0, solved=64, fingerprint=sha256_text("other"))
    one = log_of(tmp_path / "1", start_line(), validation_line(0))
    two = log_of(tmp_path / "2", start_line(task="webshop"), shop)
    plots = plotted(["validation/success"], [one, two])
    assert [(p.panel, p.task) for p in plots] == [("builtin", "sokoban"), ("builtin", "webshop")]
    assert [series_of(one, p).y.tolist() for p in plots] == [[0.5], []]
    assert [series_of(two, p).y.tolist() for p in plots] == [[], [0.25]]
    curves = curves_of([one, two])
    assert figure_bytes(curves, plots).startswith(b"<?xml")
    heads = re.findall(r"<h2>Validation on (.*?)</h2>", training_page(curves, b"<svg/>"))
    assert heads == ["sokoban/builtin", "webshop/builtin"]


def test_rounding_does_not_stretch_a_logarithmic_axis(tmp_path: Path) -> None:
    # At the first update, the policy still equals its init.
    values = [3e-14, 2e-6, 5e-5, 1e-3]
    lines = [update_line(n, {"kl_init/mean": v}) for n, v in enumerate(values, 1)]
    log = log_of(tmp_path, start_line(), *lines)
    figure = Figure()
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    what = Plotted("kl_init/mean")
    drawn = series_of(log, what)
    axes.plot(drawn.x, drawn.y)
    style_axes(axes, what, [drawn])
    assert axes.get_yscale() == "symlog"
    ticks = [tick for tick in axes.get_yticks() if tick > 0]
    assert min(ticks) >= 1e-7
    # It is still plotted at the bottom, at 0.
    assert drawn.y[0] == 3e-14 and axes.get_ylim()[0] <= 0


def test_invisible_characters_are_shown() -> None:
    assert printable("gr\u202epo\n\u00e9 $x$") == "grU+202EpoU+000A\u00e9 $x$"


@pytest.mark.slow
def test_a_figure_is_the_same_every_time(runs: list[TrainingLog]) -> None:
    curves, plots = curves_of(runs), plotted(["validation/success", "engine/k3"], runs)
    svg = figure_bytes(curves, plots)
    assert figure_bytes(curves, plots) == svg
    root = ET.fromstring(svg)
    assert root.tag.endswith("svg")
    assert b"<dc:date>" not in svg
    png = figure_bytes(curves, plots, image_format="png")
    assert figure_bytes(curves, plots, image_format="png") == png
    assert struct.unpack(">II", png[16:24]) > (800, 400)
    pdf = figure_bytes(curves, plots, image_format="pdf")
    assert figure_bytes(curves, plots, image_format="pdf") == pdf
    assert pdf.startswith(b"%PDF") and b"CreationDate" not in pdf


def test_every_run_every_median_and_every_collapse_is_drawn(runs: list[TrainingLog]) -> None:
    """Counted by color: a thin line per run, a median, a band, and a cross at the one collapse."""
    svg = figure_bytes(curves_of(runs), [SUCCESS]).decode()
    lines = re.findall(r'<g id="line2d_\d+">\s*<path d="([^"]+)" [^>]*style="([^"]*)"', svg)
    grpo = [style for _, style in lines if "#0072b2" in style.lower()]
    sampo = [style for _, style in lines if "#009e73" in style.lower()]
    assert len(grpo) == 3 + 1 + 1  # runs, median, legend
    assert len(sampo) == 1 + 1
    assert len(re.findall(r"FillBetweenPolyCollection|PolyCollection", svg)) == 1
    assert [collapse_update(run) is not None for run in runs] == [False, True, False, False]
    assert len(re.findall(r'<use [^>]*style="fill: #0072b2; stroke: #ffffff', svg)) == 1
    assert "<!-- grpo (3 seeds, 1 collapsed) -->" in svg
    assert "<!-- grpo (collapsed) -->" in figure_bytes(curves_of(runs[1:2]), [SUCCESS]).decode()
    assert not re.findall(r'<use [^>]*style="fill: #009e73; stroke: #ffffff', svg)


def test_a_late_loss_is_named(runs: list[TrainingLog], tmp_path: Path) -> None:
    late = log_of(tmp_path / "late", *run_of(LATE_LOSS, seed=7))
    alone = figure_bytes(curves_of([late]), [SUCCESS]).decode()
    assert "<!-- grpo (halved) -->" in alone and "Halved: not collapsed" in alone
    svg = figure_bytes(curves_of([*runs, late]), [SUCCESS]).decode()
    assert "<!-- grpo (4 seeds, 1 collapsed, 1 halved) -->" in svg
    (row,) = re.findall(r"<tbody>(.*?)</tbody>", training_page(curves_of([late]), b""), re.DOTALL)
    assert '<td class="bad">halved</td>' in row


def test_what_was_not_measured_is_said_and_the_rest_is_drawn(tmp_path: Path) -> None:
    log = log_of(tmp_path, start_line(), update_line(1, {"policy/loss": -1.0}))
    plots = plotted(["validation/success", "policy/loss", "engine/k3"], [log])
    assert [p.panel for p in plots] == ["", None, None]
    assert figure_bytes(curves_of([log]), plots).startswith(b"<?xml")


@pytest.mark.slow
def test_hard_numbers_can_be_drawn(tmp_path: Path) -> None:
    """Zeros on a logarithmic axis, a single value, 1e38, and a negative value."""
    values = [
        {"kl_old/mean": 0.0, "policy/grad_norm": 1e38, "policy/loss": -3.0},
        {"kl_old/mean": 1e-6, "policy/grad_norm": 1e-9, "policy/loss": 2.0},
        {"kl_old/mean": 10.0, "policy/entropy": 0.0},
    ]
    lines = [update_line(n, v) for n, v in enumerate(values, 1)]
    log = log_of(tmp_path, start_line(), *lines)
    plots = [
        Plotted(n) for n in ("kl_old/mean", "policy/grad_norm", "policy/loss", "policy/entropy")
    ]
    assert figure_bytes(curves_of([log]), plots).startswith(b"<?xml")


def test_more_curves_than_colors_differ(tmp_path: Path) -> None:
    logs = [log_of(tmp_path / f"r{n}", *run_lines(f"recipe-{n}", updates=2)) for n in range(18)]
    svg = figure_bytes(curves_of(logs), [SUCCESS]).decode()
    styles = re.findall(r'<g id="line2d_\d+">\s*<path d="[^"]+" [^>]*style="([^"]*)"', svg)
    looks = {
        (re.search(r"stroke: (#\w+)", s), re.search(r"stroke-dasharray: ([^;]+)", s))
        for s in styles
    }
    found = {(c[1] if c else "", d[1] if d else "") for c, d in looks}
    assert len({look for look in found if look[0] != ""}) >= 18


def test_the_page_has_the_last_numbers_and_loads_nothing(runs: list[TrainingLog]) -> None:
    curves = curves_of(runs)
    page = training_page(curves, b"<svg/>")
    assert page == training_page(curves, b"<svg/>")
    rows = re.findall(r'<tr><th scope="row">(.*?)</tr>', page, re.DOTALL)
    cells = [re.sub(r"\s+", " ", re.sub("<.*?>", "|", row)) for row in rows]
    assert [cell.split("|")[0] for cell in cells] == ["grpo", "grpo", "grpo", "sampo"]
    # The init solves 115 of 256; the first 9 updates have 9,050 to 9,450 response tokens.
    assert "44.9" in cells[0] and "83,250" in cells[1]
    assert "update" in cells[1] and all("no|" in cells[n] for n in (0, 2, 3))
    assert not re.search(r"https?://|<script|javascript:", page)
    assert "default-src 'none'" in html.unescape(page)


def test_foreign_text_stays_text(tmp_path: Path) -> None:
    init = {"name": "<img src=x onerror=alert(1)>$\\frac{\u202e", "kind": "folder"}
    bad = "</style><script>alert(1)</script>"
    log = log_of(tmp_path / "1", start_line(init=init), validation_line(0))
    other = log_of(tmp_path / "2", start_line(configuration={bad: "$^$\n"}), validation_line(0))
    curves = curves_of([log, other])
    svg = figure_bytes(curves, [SUCCESS])
    assert b"<script" not in svg and ET.fromstring(svg) is not None
    page = training_page(curves, svg)
    assert "<script" not in page and "<img src=x" not in page and "\u202e" not in page


@pytest.mark.slow
def test_the_command_writes_what_it_says(
    runs: list[TrainingLog], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [str(run.path.parent) for run in runs]
    root = runs[0].path.parent.parent / "here"
    root.mkdir()
    monkeypatch.chdir(root)
    assert main(["plot", *folders, "--metrics", "validation/success, policy/entropy"]) == 0
    assert (root / "training_curves.svg").read_bytes().startswith(b"<?xml")
    first, *_ = capsys.readouterr().out.splitlines()
    assert first == f"curves of 4 runs: {root / 'training_curves.svg'}"
    page = root / "page.html"
    arguments = ["--out", str(page), "--x", "tokens", "--by", "run", "--metrics", "engine/k3"]
    assert main(["plot", str(runs[0].path), *arguments]) == 0
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")


def test_folders_without_a_log_are_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_log(tmp_path / "run", run_lines(updates=2)).parent
    bare = tmp_path / "bare"
    bare.mkdir()
    out = str(tmp_path / "x.svg")
    assert main(["plot", str(bare), str(run), "--metrics", "engine/k3", "--out", out]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{bare}: has no training_log.jsonl and was skipped",
        f"curves of 1 run: {out}",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{root}/x", "{run}"], "does not exist; choose a training log or a folder with one"),
        (["{root}", "{root}"], "none of the 2 folders has a training_log.jsonl"),
        (["{run}", "{root}/run/no-log"], "does not exist"),
        (["{root}/x"], "does not exist; choose a training log or a folder with one"),
        (["{root}"], "has no training_log.jsonl"),
        (["{run}", "{run}"], "is given twice"),
        (["{run}", "--out", "{root}/x.gif"], "the name must end in one of .svg, .png, .pdf, .html"),
        (["{run}", "--metrics", "sucess"], "no metric 'sucess' in a training log"),
        (["{run}", "--metrics", "engine/k3", "--out", "{root}/no/x.svg"], "cannot be written"),
    ],
)
def test_a_mistake_ends_in_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_log(tmp_path / "run", run_lines(updates=2)).parent
    given = [part.format(root=tmp_path, run=run) for part in arguments]
    assert main(["plot", *given]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_runs_of_one_recipe_on_several_tracks_are_labeled_and_what_else_differs_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sha256 = sha256_text("track")
    for track in (None, {"name": "sokoban-stress", "sha256": sha256}):
        lines = run_of([64, 128])
        lines[0] |= {"track": track, "configuration": {"kl": {"coef": 0.0 if track else 0.5}}}
        write_log(tmp_path / ("fixed" if track else "open"), lines)
    runs = [str(tmp_path / "open"), str(tmp_path / "fixed")]
    page = tmp_path / "page.html"
    assert main(["plot", *runs, "--out", str(page)]) == 0
    said = capsys.readouterr().out
    content = page.read_text("utf-8")
    assert "<h2>Settings that differ</h2>" in content and "<td>0.5 or 0.0</td>" in content
    assert "<h2>Success at equal updates and episodes</h2>" in content
    assert "grpo, open" in said and "grpo, sokoban-stress" in said
    assert "settings that differ:\n    kl.coef  0.5 or 0.0\n" in said
    # One seed each, which `stability` does not compare.
    assert main(["stability", *runs, "--out", str(page)]) == 0
    said = capsys.readouterr().out
    assert "sokoban: settings that differ:\n    kl.coef  0.5 or 0.0\n" in said
    content = page.read_text("utf-8")
    assert "<h2>sokoban: settings that differ</h2>" in content
    assert re.search(r'<th scope="row">kl.coef</th>\s*<td class="text">0.5 or 0.0</td>', content)


def test_no_validation_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = write_log(tmp_path / "run", run_lines(updates=2)[:1]), str(tmp_path / "x.svg")
    assert main(["plot", str(path), "--out", out]) == 0
    assert f"{path}: has no validation, so nothing is known" in capsys.readouterr().out


def test_a_log_of_another_trainer_is_named_with_what_draws_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a verl.log"
    log.write_text("step:1 - actor/entropy:0.500\n")
    assert main(["plot", str(log)]) == 2
    said = capsys.readouterr().err
    assert f"{log} is a log of verl, and plot draws those of `arlarena-bench train`;" in said
    assert f"arlarena-bench stability '{log}' --out curves.html" in said


def test_a_run_that_was_killed_can_be_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_log(tmp_path, run_lines(updates=3))
    path.write_bytes(path.read_bytes()[:-20])
    assert main(["plot", str(path), "--metrics", "policy/entropy"]) == 0
    assert "the last line is incomplete and was skipped" in capsys.readouterr().out


@pytest.mark.slow
def test_logs_are_read_without_torch_and_matplotlib() -> None:
    code = (
        "import sys, benchmark.logs.training_log, benchmark.logs.groups\n"
        "import benchmark.stability.collapse\n"
        "assert not {'torch', 'vllm', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
