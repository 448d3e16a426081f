"""`arlarena-bench stability`: from logs of any trainer to a table, JSON and a page."""

import json
import re
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from benchmark.archive import sha256_of, write_compressed
from benchmark.cli.main import command_line, main
from benchmark.logs.foreign import FORMATS
from benchmark.logs.metrics import METRICS
from benchmark.plots.stability import stability_svg
from benchmark.stability.definitions import DEFINITIONS
from benchmark.stability.recipes import LogReadingOptions, compared
from benchmark.stability.table import COLUMNS, shown
from tests.support.submissions import about
from tests.support.training_logs import (
    run_lines,
    start_line,
    update_line,
    validation_line,
    write_log,
)

SUCCESS = {0: 0.25, 1: 0.5, 2: 0.75, 3: 0.75}
NORMS = {1: 1.0, 2: 2.0, 3: 1.5}


def verl_log(
    path: Path, success: Mapping[int, float] = SUCCESS, norms: Mapping[int, float] = NORMS
) -> Path:
    lines = []
    for step in sorted({*success, *norms}):
        data = {"actor/grad_norm": norms[step]} if step in norms else {}
        if step in success:
            data["val/success_rate"] = success[step]
        lines.append(json.dumps({"step": step, "data": data}) + "\n")
    path.write_text("".join(lines))
    return path


def table(text: str) -> dict[str, list[str]]:
    """The cells of every line of the table, by its first one."""
    lines = text.split("\n\n", maxsplit=1)[0].splitlines()
    rule = next(number for number, line in enumerate(lines) if set(line) <= {"-", " "})
    ends = [match.end() for match in re.finditer("-+", lines[rule])]
    cells = {}
    for line in lines[rule + 1 :]:
        label, *others = [
            line[start:end].strip() for start, end in zip([0, *ends], ends, strict=False)
        ]
        cells[label] = others
    return cells


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["stability", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def one_line(text: str) -> str:
    return " ".join(text.split())


def fault(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["stability", *map(str, arguments)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    return line


def seeds(root: Path) -> list[Path]:
    """Three seeds of grpo, of which one collapses, and one run of sampo."""
    return [
        write_log(root / "grpo-0", run_lines("grpo", 0, updates=12)).parent,
        write_log(root / "grpo-1", run_lines("grpo", 1, updates=12, collapse_at=3)).parent,
        write_log(root / "grpo-2", run_lines("grpo", 2, updates=12)).parent,
        write_log(root / "sampo-0", run_lines("sampo", 0, updates=12)),
    ]


def test_our_own_logs_say_their_recipes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, *seeds(tmp_path))
    rows = table(text)
    assert list(rows) == ["grpo", "seed 0", "seed 1", "seed 2", "sampo"]
    assert rows["grpo"][:2] == ["3", "1 of 3"]
    assert rows["sampo"][:2] == ["1", "0 of 1"]
    assert rows["grpo"][3] == "0.0 %"  # the worst seed falls to nothing
    assert rows["seed 0"][1] == "no, to 12"
    assert rows["seed 1"][1].startswith("at ")
    assert rows["seed 1"][2] == "0.0 %"
    legend = text.split("\n\n")[1]
    for name in COLUMNS:
        assert re.search(rf"^{re.escape(DEFINITIONS[name].name)} \(", legend, re.M)
    assert len(text.strip().split("\n\n")) == 2  # nothing more to be said of whole logs of ours


def test_every_run_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = table(run(capsys, *seeds(tmp_path), "--by", "run"))
    assert [cells[0] for cells in rows.values()] == ["1"] * 4
    assert list(rows) == ["grpo-0", "grpo-1", "grpo-2", "sampo-0"]


def test_numbers_of_a_small_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "s.json"
    path = verl_log(tmp_path / "gigpo.jsonl", {0: 0.25, 1: 0.75, 2: 0.5, 3: 0.75})
    text = run(capsys, path, "--json", out)
    # The fall from 75 % to 50 % is the deepest one. Means of three at most: .25 .5 .5 .667.
    assert table(text)["gigpo"][:6] == ["1", "0 of 1", "75.0 %", "75.0 %", "25.0 %", "1.00"]
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
    """The same run as every trainer would log it."""
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
    assert cells["trl"][:4] == ["1", "0 of 1", "75.0 %", "75.0 %"]
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
    assert rows["gigpo"][:4] == ["2", "0 of 2", "62.5 %", "50.0 %"]
    (recipe,) = json.loads(out.read_text())["recipes"]
    assert [one["recipe"] for one in recipe["runs"]] == ["gigpo", "gigpo"]


def test_a_chart_of_several_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "chart.csv"
    path.write_text("Step,a - val/success_rate,b - val/success_rate\n0,0.5,0.25\n1,0.75,\n")
    rows = table(run(capsys, path))
    assert [rows[name][2] for name in ("a", "b")] == ["75.0 %", "25.0 %"]


def test_what_a_log_does_not_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = verl_log(tmp_path / "run.jsonl", {})
    text = run(capsys, path)
    assert table(text)["run"][1:7] == ["-"] * 6
    assert "no success of a validation: say which field it is (--map" in text
    assert "--success" not in text  # the log has nothing that could be taken
    path.write_text('{"step": 1, "data": {"episode/success_rate": 0.5, "mine": 1}}\n')
    assert "or take that of training (--success rollout/success)" in one_line(run(capsys, path))
    text = run(capsys, path, "--success", "rollout/success")
    assert table(text)["run"][2] == "50.0 %"
    assert "1 unknown: mine" in text


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
    assert "the last line has no end and was skipped" in text


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


HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e"


class Tags(HTMLParser):
    """Collects the tags and the text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, Sequence[tuple[str, str | None]]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, attrs))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_what_is_foreign_is_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = verl_log(tmp_path / "a.jsonl")
    log.write_text(log.read_text() + json.dumps({"step": 3, "data": {HOSTILE: 1}}) + "\n")
    chart = tmp_path / "chart.csv"
    chart.write_text(f'Step,"{HOSTILE} - val/success_rate"\n0,0.5\n', "utf-8")
    page = tmp_path / "s.html"
    text = run(capsys, "--recipe", HOSTILE, log, "--recipe", "b", chart, "--out", page)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "U+001B" in text
    content = page.read_text("utf-8")
    assert "\x1b" not in content
    assert "\u202e" not in content
    parser = Tags()
    parser.feed(content)
    names = {tag for tag, _ in parser.tags}
    assert not names & {"script", "iframe", "object"}
    assert not any(name.startswith("on") for _, attrs in parser.tags for name, _ in attrs)
    assert any("<script>alert(1)</script>" in data for data in parser.texts)
    policies = [dict(attrs).get("content") for tag, attrs in parser.tags if tag == "meta"]
    assert any(policy and policy.startswith("default-src 'none'") for policy in policies)
    sources = [dict(attrs).get("src") for tag, attrs in parser.tags if tag == "img"]
    assert [(source or "")[:26] for source in sources] == ["data:image/svg+xml;base64,"]


def test_the_page_explains_every_number_and_does_not_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = [*seeds(tmp_path), verl_log(tmp_path / "gigpo.jsonl")]
    pages = [tmp_path / name for name in ("a.html", "b.html")]
    for page in pages:
        run(capsys, *logs, "--out", page)
    assert pages[0].read_bytes() == pages[1].read_bytes()
    parser = Tags()
    parser.feed(pages[0].read_text("utf-8"))
    text = " ".join(" ".join(parser.texts).split())
    for what in DEFINITIONS.values():
        assert what.name in text
    assert "1 of 3, 6 to 79 %" in text  # Wilson's interval of a third
    assert "5 runs of 3 recipes: grpo, sampo, gigpo." in text
    assert "policy/grad_norm" in text


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize(
    "successes",
    [
        [{}],  # never validated
        [{0: 0.5}],
        [{0: 0.5, 1: 0.0, 2: 0.0, 3: 0.0}],  # all collapse: nobody is left at the end
        [SUCCESS, {0: 0.5, 1: 0.0, 2: 0.0}],
        [SUCCESS] * 9,
    ],
)
def test_the_figure_fits_all_runs(tmp_path: Path, successes: Sequence[Mapping[int, float]]) -> None:
    norms = {1: float("nan"), 2: 100.0, 3: 0.01}
    paths = [
        verl_log(tmp_path / f"{'long ' * 15}{number}.jsonl", success, norms)
        for number, success in enumerate(successes)
    ]
    svg = stability_svg(compared(paths, [], LogReadingOptions()))
    assert svg.startswith(b"<?xml")
    assert svg.count(b'<g id="axes_') == 4  # success, survival, anytime success, gradient norms


def test_anytime_success_is_drawn_along_what_most_logs_have(tmp_path: Path) -> None:
    """matplotlib writes a text as its shape, with the text in a comment."""
    foreign = verl_log(tmp_path / "verl.jsonl")
    own = [write_log(tmp_path / f"{seed}.jsonl", run_lines(seed=seed)) for seed in (0, 1)]
    for logs, axis in (
        (own, b"response tokens sampled"),
        ([foreign], b"<!-- update -->"),
        ([*own, foreign], b"<!-- update -->"),
    ):
        svg = stability_svg(compared(logs, [], LogReadingOptions()))
        assert axis in svg.partition(b"<!-- anytime success -->")[0]
        assert (b"response tokens sampled" in svg) == (logs == own)


def test_mistakes_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = verl_log(tmp_path / "a.jsonl")
    assert "no logs; name at least one" in fault(capsys)
    assert "end the name in .html" in fault(capsys, log, "--out", "x.svg")
    assert "is given twice" in fault(capsys, log, "--recipe", "a", log)
    assert "name the logs of its seeds" in fault(capsys, "--recipe", "a")
    assert "does not exist" in fault(capsys, tmp_path / "none")
    assert "no log has numbers under 'x'" in fault(capsys, log, "--map", "rollout/reward=x")
    assert "has no curve 'validation/succes'; did you mean validation/success" in fault(
        capsys, log, "--success", "validation/succes"
    )
    assert "cannot be written" in fault_after_table(
        capsys, log, "--json", tmp_path / "none" / "s.json"
    )
    log.write_text('{"step": 4, "data": {"val/success_rate": 45.0}}\n')
    assert f"{log}, line 1: 'val/success_rate' is 45" in fault(capsys, log)
    log.write_text('{"step": 4, "data": {"mine": 45.0}}\n')
    assert "holds no number that is known; its fields are 'mine'" in fault(capsys, log)


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
    assert shown("max_drawdown", 0.125) == "12.5 %"
    assert shown("retention", 0.5) == "0.50"
    assert shown("grad_nonfinite", 3) == "3"
    assert shown("mismatch_p95", 0.00123456) == "0.00123"
    assert shown("mismatch_p95", None) == shown("retention", float("nan")) == "-"


def submission(folder: Path) -> Path:
    """A submission of two seeds with their logs; what was played is left out."""
    seeds = (0, 1)
    files = []
    for seed in seeds:
        log = write_log(folder.parent / f"{seed}.jsonl", run_lines(seed=seed, updates=12))
        path = folder / f"training/s{seed}.jsonl.zst"
        path.parent.mkdir(parents=True, exist_ok=True)
        size = write_compressed(path, [log.read_bytes()])
        digest, stored = sha256_of(path)
        files.append(
            {"path": f"training/s{seed}.jsonl.zst", "bytes": stored, "sha256": digest,
             "content_bytes": size, "url": None}
        )  # fmt: skip
    points = [
        {"seed": seed, "runs": [f"runs/r{seed}"], "training_log": files[seed]["path"],
         "model": {"name": f"s{seed}", "kind": "folder", "sha256": str(seed) * 64}}
        for seed in seeds
    ]  # fmt: skip
    content = about("trained") | {"checkpoints": points, "files": files}
    (folder / "submission.json").write_text(json.dumps(content))
    return folder


def test_a_submission_is_its_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = submission(tmp_path / "20260102_trained")
    logs = [folder / "training" / f"s{seed}.jsonl.zst" for seed in (0, 1)]
    plain = table(run(capsys, tmp_path / "0.jsonl", tmp_path / "1.jsonl"))
    assert list(plain) == ["grpo", "seed 0", "seed 1"]
    assert table(run(capsys, folder)) == plain
    assert table(run(capsys, *logs)) == plain
    assert table(run(capsys, "--recipe", "mine", folder))["mine"] == plain["grpo"]
    assert list(table(run(capsys, folder, "--by", "run"))) == ["s0", "s1"]
    assert "is given twice" in fault(capsys, folder, logs[0])


def test_packed_logs_are_read_anywhere_and_no_larger_than_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = submission(tmp_path / "20260102_trained")
    cell = tmp_path / "grpo-s0.jsonl.zst"
    cell.write_bytes((folder / "training" / "s0.jsonl.zst").read_bytes())
    assert list(table(run(capsys, cell))) == ["grpo"]
    # A study's results for a track: logs beside records, which are none.
    results = tmp_path / "results"
    results.mkdir()
    for name in ("grpo-s0.jsonl.zst", "grpo-s0.episodes.jsonl.zst"):
        (results / name).write_bytes(cell.read_bytes())
    assert list(table(run(capsys, results))) == ["grpo"]
    write_compressed(cell, [bytes(2**26 + 1)])
    assert f"{cell} holds more than {2**26} bytes" in fault(capsys, cell)
    cell.write_bytes(b"no frame")
    assert "grpo-s0.jsonl.zst cannot be unpacked" in fault(capsys, cell)
    (folder / "submission.json").write_text("{}")
    assert f"{folder}: submission.json, schema_version" in fault(capsys, folder)


def test_a_submission_without_such_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = submission(tmp_path / "20260102_trained")
    log = folder / "training" / "s0.jsonl.zst"
    assert f"{folder} is a submission without trl logs" in fault(capsys, folder, "--format", "trl")
    assert "a submission's log, not one of trl" in fault(capsys, log, "--format", "trl")
    file = folder / "submission.json"
    content = json.loads(file.read_text())
    for point in content["checkpoints"]:
        point["training_log"] = None
    file.write_text(json.dumps(content))
    assert f"{folder} is a submission without training logs" in fault(capsys, folder)
