"""`arlarena-bench submit prepare`: what it packs, what it prints, and when it creates nothing."""

import json
from pathlib import Path

import pytest
import yaml

from baselines.inits.registry import read_registry
from benchmark.cli.commands.submit import init_note
from benchmark.cli.main import main
from benchmark.models import ModelIdentity
from benchmark.submissions.reading.folder import read_submission
from tasks.seeding import sha256_text, stable_seed
from tests.benchmark.submissions.test_about import TRAINED
from tests.support.submissions.repositories import commit, with_submission
from tests.support.submissions.small import played_by, training_lines
from tests.support.training.logs import write_log

SEEDS = (7, 3)


class Given:
    """Runs of two seeds, their logs, and their `about.yaml`."""

    def __init__(self, root: Path, expert: Path, random: Path) -> None:
        self.root = root
        self.out = root / "20260102_mine"
        self.runs, self.logs = [], []
        digest = read_registry()["tiny-sokoban"].sha256
        for seed in SEEDS:
            model = ModelIdentity(name="last", kind="folder", sha256=sha256_text(f"s{seed}"))
            played = played_by(model, expert, random, stable_seed("records", seed))
            run = root / f"run-{seed}"
            run.mkdir()
            (run / "run.json").write_text(played.manifest.model_dump_json(indent=2) + "\n")
            lines = [record.model_dump_json() + "\n" for record in played.records]
            (run / "episodes.jsonl").write_text("".join(lines))
            self.runs.append(str(run))
            start, *rest = training_lines(
                seed, played.manifest, sum(record.solved for record in played.records)
            )
            start["init"]["sha256"] = digest
            self.logs.append(str(write_log(root / f"log-{seed}.jsonl", [start, *rest])))
        self.about: dict[str, object] = TRAINED | {
            "method": {"recipe": "grpo", "description": "As it is."},
            "weights": "https://huggingface.co/ada/grpo",
        }

    def prepare(self, *arguments: str) -> int:
        about = self.root / "about.yaml"
        about.write_text(yaml.safe_dump(self.about))
        named = ["--about", str(about), "--out", str(self.out)]
        return main(["submit", "prepare", *arguments, *named])


@pytest.fixture
def given(tmp_path: Path, expert_run: Path, random_run: Path) -> Given:
    return Given(tmp_path, expert_run, random_run)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["runs first", "runs last", "one by one"])
def test_logs_add_up_wherever_they_stand(
    given: Given, order: str, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, (one, two) = given.runs, given.logs
    arguments = {
        "runs first": [*runs, "--training-log", one, "--training-log", two],
        "runs last": ["--training-log", one, two, *runs],
        "one by one": ["--training-log", one, runs[0], "--training-log", two, runs[1]],
    }
    assert given.prepare(*arguments[order]) == 0
    points = read_submission(given.out).checkpoints
    assert [(point.seed, point.training_log) for point in points] == [
        (7, "training/s7.jsonl.zst"),
        (3, "training/s3.jsonl.zst"),
    ]
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == ["seed", "runs", "success", "recipe", "updates", "log"]
    table = "".join(line.strip() for line in printed[1:-2])
    for seed, run, log in zip(SEEDS, runs, given.logs, strict=True):
        lines = (Path(run) / "episodes.jsonl").read_text().splitlines()
        success = sum(json.loads(line)["success"] for line in lines) / len(lines)
        row = f"{seed}     run-{seed}  sokoban/builtin {success:.1%}  grpo    20       "
        assert row in table
        # On one line, to be copied.
        assert any(line.endswith(log) for line in printed)
        assert max(map(len, printed[:-2])) <= max(100, len(row) + len(log))


def test_the_readme_names_weights_by_their_hash(given: Given) -> None:
    assert given.prepare(*given.runs, "--training-log", *given.logs) == 0
    readme = (given.out / "README.md").read_text()
    for seed in SEEDS:
        command = (
            f"arlarena-bench eval --model <weights of seed {seed}, SHA-256 "
            f"{sha256_text(f's{seed}')}> --engine transformers --dtype float32 "
            f"--task sokoban/builtin --out runs/reproduce-{given.out.name}/s{seed}-eval\n"
        )
        assert command in readme
    assert "| weights | https://huggingface.co/ada/grpo |" in readme
    assert str(given.root) not in readme


def test_what_cannot_be_accepted_is_not_made(
    given: Given, capsys: pytest.CaptureFixture[str]
) -> None:
    """All findings are printed, and name the file that the author wrote."""
    given.about["parameters"] = 4
    given.about["method"] = {"recipe": "ppo", "description": "As it is."}
    before = sorted(given.root.iterdir())
    assert given.prepare(*given.runs, "--training-log", *given.logs) == 1
    printed = capsys.readouterr().out.splitlines()
    about = given.root / "about.yaml"
    assert f"{about}, parameters: 4, the init tiny-sokoban has 442,272 weights; write 442272" in (
        printed
    )
    assert any(line.startswith("training/s7.jsonl.zst, line 1, recipe: ") for line in printed)
    assert printed[-1] == f"{given.out} was not created: {len(printed) - 1} findings to fix first"
    assert sorted(given.root.iterdir()) == sorted([*before, about])


@pytest.mark.parametrize(
    ("content", "format"),
    [
        ('{"log_history": [{"step": 1, "reward": 0.5}]}', "trl"),
        ('{"step": 1, "data": {"actor/entropy": 0.5}}\n', "verl"),
        ("_step,reward\n1,0.5\n", "wandb"),
    ],
)
def test_logs_of_several_trainers(
    given: Given, capsys: pytest.CaptureFixture[str], content: str, format: str
) -> None:
    log = given.root / "other.log"
    log.write_text(content)
    assert given.prepare(*given.runs, "--training-log", given.logs[0], str(log)) == 2
    assert f"there are logs of arlarena-bench and {format}: give logs of one trainer" in (
        capsys.readouterr().err
    )


def test_an_init_that_nobody_can_look_at_is_said() -> None:
    own = {"name": "mine", "kind": "folder", "sha256": "0" * 64}
    assert init_note({"init": own}) == (
        "note: the init mine is not a registered one, so nothing checks its hash: the badge will "
        "be `init: open`"
    )
    assert init_note({"init": {"name": "tiny-sokoban", "kind": "init"}}) == ""
    assert init_note({"init": None}) == ""


def test_no_run_at_all(given: Given, capsys: pytest.CaptureFixture[str]) -> None:
    assert given.prepare("--training-log", given.logs[0]) == 2
    said = capsys.readouterr().err
    assert said == (
        "arlarena-bench submit prepare: give at least one run folder written by `eval`\n"
    )


def test_the_folder_names_a_day(given: Given, capsys: pytest.CaptureFixture[str]) -> None:
    given.out = given.root / "20261330_mine"
    assert given.prepare(*given.runs, "--seeds", "0,1") == 2
    assert "--out " in (said := capsys.readouterr().err)
    assert "20261330_mine: its name begins with the date of the submission, but there is " in said


def test_what_is_missing_without_logs_is_said(
    given: Given, capsys: pytest.CaptureFixture[str]
) -> None:
    assert given.prepare(*given.runs, "--seeds", "0,1") == 0
    assert "note: without --training-log, the entry is not on a track" in capsys.readouterr().out


def test_an_earlier_attempt_is_to_be_removed(
    given: Given, capsys: pytest.CaptureFixture[str]
) -> None:
    """Uncommitted folders are the author's own; committed ones are accepted entries."""
    clone = with_submission(given.root / "clone", "submissions/20260101_x/README.md")
    words = (*given.runs, "--training-log", *given.logs)
    first = given.out = clone / "submissions" / "20260102_first"
    assert given.prepare(*words) == 0
    assert given.prepare(*words) == 2
    assert f"{first} already exists: remove it to prepare it again" in capsys.readouterr().err
    given.out = clone / "submissions" / "20260102_second"
    assert given.prepare(*words) == 1
    *found, last = capsys.readouterr().out.splitlines()
    assert found and all(line.endswith(f"; remove your earlier {first}") for line in found)
    assert last.endswith(f"{len(found)} findings to fix first")
    commit(clone)
    assert given.prepare(*words) == 1
    said = capsys.readouterr().out
    assert "choose another name" in said and "remove your earlier" not in said


def test_plugins_are_asked_for(given: Given, capsys: pytest.CaptureFixture[str]) -> None:
    """Plug-in code is not part of an entry: the command names it, and a note asks for it."""
    for log in given.logs:
        start, *rest = Path(log).read_text().splitlines()
        named = {**json.loads(start), "plugins": {"rank.py": sha256_text("code")}}
        Path(log).write_text("\n".join([json.dumps(named), *rest, ""]))
    words = (*given.runs, "--training-log", *given.logs)
    note = "note: trained with plug-in rank.py: give method.code, or no one can reproduce it"
    assert main(["submit", "init", *words, "--out", str(given.root / "first.yaml")]) == 0
    assert note in capsys.readouterr().out
    assert given.prepare(*words) == 0
    assert note in capsys.readouterr().out
    readme = (given.out / "README.md").read_text()
    assert f"reproduce submissions/{given.out.name} --plugin rank.py` trains again" in readme
    given.out = given.root / "again" / given.out.name
    given.about["method"] = {
        "recipe": "grpo",
        "description": "As it is.",
        "code": "https://example.com/rank",
    }
    assert given.prepare(*words) == 0
    assert "method.code" not in capsys.readouterr().out
