"""`arlarena-bench stability`: from any trainer's logs to a table, JSON and a page."""

import json
import re
from pathlib import Path

import pytest

from benchmark.cli.main import command_line, main
from benchmark.logs.foreign import FORMATS
from benchmark.logs.metrics import METRICS
from benchmark.stability.definitions import DEFINITIONS
from benchmark.stability.table import COLUMNS, SHORT_LEGEND, shown
from tests.benchmark.stability.command import (
    LATE_LOSS,
    NORMS,
    SUCCESS,
    fault,
    one_line,
    run,
    run_of,
    seeds,
    table,
    verl_log,
)
from tests.support.submissions.small import trainer_line
from tests.support.training.logs import (
    start_line,
    update_line,
    validation_line,
    write_log,
)


def test_our_own_logs_say_their_recipes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, *seeds(tmp_path))
    rows = table(text)
    assert list(rows) == ["grpo", "seed 0", "seed 1", "seed 2", "sampo"]
    assert rows["grpo"][:2] == ["3", "1 of 3"]
    assert rows["sampo"][:2] == ["1", "0 of 1"]
    assert rows["grpo"][3] == "0.0%"  # the worst seed falls to nothing
    assert rows["seed 0"][1] == "no, to 12"
    assert rows["seed 1"][1].startswith("at ")
    assert rows["seed 1"][2] == "0.0%"
    # There are no further notes on complete logs of ours.
    _, legend, comparison, _, equal = text.split("\n\n")
    assert legend == SHORT_LEGEND and "P(first): grpo" in comparison
    assert equal.startswith("success on sokoban/builtin after  12 updates")


def test_a_late_loss_stands_beside_the_collapses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of three seeds halves, one collapses, and the last, halved, has too few validations.

    The last three validations of the first have a mean of 19.5%, more than half of 35.4%.
    """
    logs = [LATE_LOSS, (128, 128, 128, 0, 0, 0), (128, 128, 32)]
    paths = [
        write_log(tmp_path / f"{seed}.jsonl", run_of(solved, seed=seed))
        for seed, solved in enumerate(logs)
    ]
    out, page = tmp_path / "s.json", tmp_path / "s.html"
    text = run(capsys, *paths, "--legend", "--json", out, "--out", page)
    rows = table(text)
    assert rows["grpo"][1] == "1 of 3, 1 unknown, 2 halved"
    assert [rows[f"seed {seed}"][1] for seed in range(3)] == ["halved", "at 4", "halved"]
    assert "halved: not collapsed, but ends at half of its best (if 10% or more) or below" in text
    (recipe,) = json.loads(out.read_text())["recipes"]
    assert recipe["halved"] == 2
    assert [one["halved"] for one in recipe["runs"]] == [True, False, True]
    content = page.read_text("utf-8")
    assert "<td>1 of 3, 1 unknown, 2 halved</td>" in content and "<td>halved</td>" in content
    assert "<td>1 of 3, 1 unknown; 2 halved</td>" in content
    assert "Halved: not collapsed" in content
    for path, cell in ((paths[0], "0 of 1, 1 halved"), (paths[2], "unknown, 1 halved")):
        run(capsys, path, "--out", page)
        assert table(run(capsys, path))["grpo"][1] == cell
        assert "<td>halved</td>" in page.read_text("utf-8")  # among the events


def test_the_curve_that_is_named_is_the_one_that_halves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = run_of((128, 128, 128, 128, 128))
    for update, line in enumerate(lines[2::2], 1):
        line["rollout/success"] = 0.5 if update < 4 else 0.125
    path = write_log(tmp_path / "log.jsonl", lines)
    assert table(run(capsys, path))["grpo"][1] == "0 of 1"
    rows = table(run(capsys, path, "--success", "rollout/success"))
    assert rows["grpo"][1] == "0 of 1, 1 halved"


def test_the_legend_explains_every_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    legend = run(capsys, *seeds(tmp_path), "--legend").split("\n\n")[1]
    for name in COLUMNS:
        assert re.search(rf"^{re.escape(DEFINITIONS[name].name)} \(", legend, re.M)


def test_a_log_without_validations_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_log(tmp_path / "log.jsonl", [start_line(), update_line(1)])
    text = one_line(run(capsys, path))
    assert f"{path}: has no validation, so nothing is known of its success" in text


def test_a_run_that_was_stopped_early_counts_as_collapsed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two of ten updates, the second with enough skipped steps to end a run; and a complete run."""
    paths = []
    for seed, steps in enumerate(((4, 0), (0, 4))):
        start = trainer_line(start_line(seed=seed), updates=10, every=5)
        start["configuration"]["optimization"]["max_skipped"] = 4
        lines = [start, validation_line(0)]
        for number in (1, 2):
            made, skipped = steps if number == 2 else (4, 0)
            found = {"policy/optimizer_steps": made, "policy/skipped_steps": skipped}
            lines.append(update_line(number, found))
        paths.append(write_log(tmp_path / f"{seed}.jsonl", lines))
    text = run(capsys, *paths)
    rows = table(text)
    assert rows["grpo"][:2] == ["2", "1 of 2, 1 unknown"]
    assert (rows["seed 0"][1], rows["seed 1"][1]) == ("-", "at 2")
    assert (
        f"{paths[1]}: ends early, after update 2, which counts as a collapse: 4 optimizer steps in "
        "a row had a loss or gradient that is not finite"
    ) in one_line(text)
    assert f"{paths[0]}: ends early" not in one_line(text)


def test_a_run_that_may_still_go_on_has_not_collapsed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is solved: `--stop-on-collapse` would have ended it, but may not have been set."""
    start = trainer_line(start_line(), updates=20, every=1)
    lines = [validation_line(number, solved=0) for number in range(7)]
    path = write_log(tmp_path / "log.jsonl", [start, *lines, update_line(6)])
    text = run(capsys, path)
    assert table(text)["grpo"][1] == "0 of 1"
    assert (
        f"{path}: goes to update 6 so far; if --stop-on-collapse has ended it, it counts as "
        "collapsed in an entry: success was below 1% in 5 validations in a row"
    ) in one_line(text)


def test_every_run_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = table(run(capsys, *seeds(tmp_path), "--by", "run"))
    assert [cells[0] for cells in rows.values()] == ["1"] * 4
    assert list(rows) == ["grpo-0", "grpo-1", "grpo-2", "sampo-0"]


def test_numbers_of_a_small_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "s.json"
    path = verl_log(tmp_path / "gigpo.jsonl", {0: 0.25, 1: 0.75, 2: 0.5, 3: 0.75})
    text = run(capsys, path, "--json", out)
    # The fall from 75% to 50% is the deepest. Means of at most three: .25 .5 .5 .667.
    assert table(text)["gigpo"][:6] == ["1", "0 of 1", "75.0%", "75.0%", "25.0%", "1.00"]
    content = json.loads(out.read_text())
    (recipe,) = content["recipes"]
    (one,) = recipe["runs"]
    assert one["numbers"]["max_drawdown"] == 0.25
    assert one["numbers"]["initial_success"] == 0.25
    assert one["numbers"]["best_success"] == pytest.approx(2 / 3)
    assert one["numbers"]["mismatch_p95"] is None
    assert one["events"]["collapse"] == {"step": 3, "happened": False}
    assert one["events"]["entropy_collapse"] is None
    assert (one["source"], one["seed"], one["success_curve"]) == (
        "verl",
        None,
        "validation/success",
    )
    assert set(one["missing"]) >= set(METRICS) - {"policy/grad_norm"}
    assert one["read_as"]["actor/grad_norm"]["name"] == "policy/grad_norm"
    assert recipe["worst_seed"] == 0.75
    assert recipe["collapse_rate"]["value"] == 0.0
    assert set(content["definitions"]) == set(DEFINITIONS)


def foreign(root: Path) -> dict[str, Path]:
    """The same run as logged by every trainer."""
    tensorboard = pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    assert tensorboard
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    points = [(step, "val/success_rate", value) for step, value in SUCCESS.items()]
    points += [(step, "actor/grad_norm", value) for step, value in NORMS.items()]
    points.sort()
    logs = {"verl-lines": verl_log(root / "lines.jsonl")}
    logs["verl-console"] = root / "console.log"
    logs["verl-console"].write_text("".join(f"step:{s} - {n}:{v!r}\n" for s, n, v in points))
    logs["wandb-csv"] = root / "history.csv"
    logs["wandb-csv"].write_text(
        "_step,val/success_rate,actor/grad_norm\n"
        + "".join(f"{s},{SUCCESS.get(s, '')},{NORMS.get(s, '')}\n" for s in range(4))
    )
    logs["wandb-lines"] = root / "history.jsonl"
    logs["wandb-lines"].write_text(
        "".join(json.dumps({"_step": s, n: v}) + "\n" for s, n, v in points)
    )
    logs["trl"] = root / "trl" / "trainer_state.json"
    logs["trl"].parent.mkdir()
    names = {"val/success_rate": "val/success_rate", "actor/grad_norm": "grad_norm"}
    history = [{"step": s, names[n]: v} for s, n, v in points]
    logs["trl"].write_text(json.dumps({"log_history": history, "logging_steps": 1}))
    logs["tensorboard"] = root / "tb"
    writer = EventFileWriter(str(logs["tensorboard"]))
    for step, name, value in points:
        summary = Summary(value=[Summary.Value(tag=name, simple_value=value)])
        writer.add_event(Event(step=step, summary=summary))
    writer.close()
    return logs


def test_every_format_gives_the_same_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    word = ("--map", "validation/success=val/success_rate")
    cells = {}
    for name, path in foreign(tmp_path).items():
        ((_, cells[name]),) = table(run(capsys, path, *word)).items()
    assert cells["trl"][:4] == ["1", "0 of 1", "75.0%", "75.0%"]
    assert {tuple(one) for one in cells.values()} == {tuple(cells["trl"])}, cells


def test_seeds_of_a_foreign_recipe_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = []
    for seed, last in enumerate((0.75, 0.5)):
        folder = tmp_path / f"seed-{seed}"
        folder.mkdir()
        paths.append(verl_log(folder / "metrics.jsonl", SUCCESS | {3: last}))
    alone = table(run(capsys, *paths))
    assert list(alone) == ["seed-0/metrics", "seed-1/metrics"]
    out = tmp_path / "s.json"
    rows = table(run(capsys, "--recipe", "gigpo", *paths, "--json", out))
    assert rows["gigpo"][:4] == ["2", "0 of 2", "62.5%", "50.0%"]
    (recipe,) = json.loads(out.read_text())["recipes"]
    assert [one["recipe"] for one in recipe["runs"]] == ["gigpo", "gigpo"]


def test_a_chart_of_several_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "chart.csv"
    path.write_text("Step,a - val/success_rate,b - val/success_rate\n0,0.5,0.25\n1,0.75,\n")
    rows = table(run(capsys, path))
    assert [rows[name][2] for name in ("a", "b")] == ["75.0%", "25.0%"]


def test_what_a_log_does_not_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = verl_log(tmp_path / "run.jsonl", {})
    text = run(capsys, path)
    assert table(text)["run"][1:7] == ["-"] * 6
    assert "no validation success: give its field (--map" in text
    assert "--success" not in text  # the log contains nothing usable
    path.write_text('{"step": 1, "data": {"episode/success_rate": 0.5, "mine": 1}}\n')
    assert "or use the training success (--success rollout/success)" in one_line(run(capsys, path))
    text = run(capsys, path, "--success", "rollout/success")
    assert table(text)["run"][2] == "50.0%"
    assert "1 unknown: mine" in text
    path.write_text('{"step": 1, "data": {"val-core/x/reward/mean@1": 0.5, "actor/entropy": 1}}\n')
    said = "(--map validation/success=FIELD), perhaps val-core/x/reward/mean@1"
    assert said in one_line(run(capsys, path))


def test_conditions_and_notes_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.log"
    path.write_text("step:1 - actor/entropy:0.500\nstep:2 - actor/entropy:0.000\n")
    text = " ".join(run(capsys, path).split())
    assert "actor/entropy is policy/entropy, provided that loss_agg_mode is token-mean" in text
    assert "rounded to three decimals" in text
    torn = write_log(tmp_path / "own", [start_line(), validation_line(0)])
    with torn.open("a") as file:
        file.write('{"kind"')
    text = " ".join(run(capsys, torn).split())
    assert "the last line is incomplete and was skipped" in text


def test_rounding_makes_no_spikes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    norms = [0.004 if step % 7 else 0.005 for step in range(1, 61)]
    lines = [f"step:{step} - actor/grad_norm:{norm:.3f}\n" for step, norm in enumerate(norms, 1)]
    path = tmp_path / "a.log"
    path.write_text("".join(lines))
    out = tmp_path / "s.json"
    run(capsys, path, "--json", out)
    (one,) = json.loads(out.read_text())["recipes"][0]["runs"]
    assert (one["numbers"]["grad_spikes"], one["resolution"]) == (0, 0.001)
    exact = verl_log(tmp_path / "b.jsonl", {}, dict(enumerate(norms, 1)))
    run(capsys, exact, "--json", out)
    (one,) = json.loads(out.read_text())["recipes"][0]["runs"]
    assert one["numbers"]["grad_spikes"] > 10
    assert one["resolution"] == 0


def test_mistakes_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = verl_log(tmp_path / "a.jsonl")
    assert "no logs; give at least one" in fault(capsys)
    assert "the name must end in .html" in fault(capsys, log, "--out", "x.svg")
    assert "is given twice" in fault(capsys, log, "--recipe", "a", log)
    assert "add the logs of its seeds" in fault(capsys, "--recipe", "a")
    assert "does not exist" in fault(capsys, tmp_path / "none")
    assert "no log has values for 'x'" in fault(capsys, log, "--map", "rollout/reward=x")
    assert "has no curve 'validation/succes'; did you mean validation/success" in fault(
        capsys, log, "--success", "validation/succes"
    )
    assert "no curve 'accuracy'; of success it has validation/success" in fault(
        capsys, log, "--success", "accuracy"
    )
    assert "cannot be written" in fault_after_table(
        capsys, log, "--json", tmp_path / "none" / "s.json"
    )
    # Other commands' --json takes no file.
    for taken in (tmp_path, log):
        assert "give the file to write, such as --json" in fault(capsys, "--json", taken, log)
    assert log.read_text().startswith('{"step"')
    log.write_text('{"step": 4, "data": {"val/success_rate": 45.0}}\n')
    assert f"{log}, line 1: 'val/success_rate' is 45" in fault(capsys, log)
    log.write_text('{"step": 4, "data": {"mine": 45.0}}\n')
    assert "has no known metric; its fields are 'mine'" in fault(capsys, log)


def fault_after_table(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["stability", *map(str, arguments)]) == 2
    return capsys.readouterr().err


def test_seeds_of_other_protocols_or_panels_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [
        write_log(
            tmp_path / str(seed),
            [
                start_line(seed=seed),
                validation_line(0, fingerprint=str(seed) * 64),
                update_line(1),
                validation_line(1, fingerprint=str(seed) * 64),
            ],
        )
        for seed in (0, 1)
    ]
    assert "under different protocols" in fault(capsys, *paths)
    assert "under different protocols" in fault(capsys, "--recipe", "grpo", *paths)
    assert len(table(run(capsys, *paths, "--by", "run"))) == 2


def test_the_command_line_knows_the_formats() -> None:
    for name in FORMATS:
        assert command_line().parse_args(["stability", "x", "--format", name]).format == name


def test_numbers_are_shown_in_their_units() -> None:
    assert shown("max_drawdown", 0.125) == "12.5%"
    assert shown("retention", 0.5) == "0.50"
    assert shown("grad_nonfinite", 3) == "3"
    assert shown("mismatch_p95", 0.00123456) == "0.00123"
    assert shown("mismatch_p95", None) == shown("retention", float("nan")) == "-"
