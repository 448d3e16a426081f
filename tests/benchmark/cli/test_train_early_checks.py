"""What `train` rejects or reports before anything is loaded."""

import shutil
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import pytest
import yaml

from baselines.algorithms.advantage.base import Advantage
from baselines.algorithms.advantage.grpo import GRPO
from baselines.config.layers import read_recipe
from baselines.inits.registry import find_model
from baselines.study import workspace
from baselines.study.current_tracks import current_tracks_of
from baselines.study.custom import custom_methods
from baselines.study.schema import cells_of, read_study
from baselines.study.workspace import StudySetting
from baselines.tracks.registry import load_track, resolve_on_track
from benchmark.cli.main import main, parse
from benchmark.cli.training import early_checks
from benchmark.cli.training.early_checks import (
    changed_text,
    check_run,
    inert_text,
    taken_text,
    unhashed_text,
)
from benchmark.cli.training.run_folder import CONFIG, refuse_others
from benchmark.cli.training.study import _warn_of_methods
from benchmark.cli.training.train import _open_run
from benchmark.exit_codes import EXIT_USER_ERROR
from benchmark.versions import install_text
from tasks.errors import UserError
from tests.support.submissions.repositories import commit, git, put

START = ("train", "--recipe", "grpo", "--init")


def refused(capsys: pytest.CaptureFixture[str], folder: Path, *own: str) -> str:
    """The single line that is printed; no folder was created."""
    out = folder / "run"
    assert main([*START, *own, "--out", str(out)]) == EXIT_USER_ERROR
    assert not out.exists()
    return capsys.readouterr().err.splitlines()[-1]


def test_what_would_end_a_run_late_is_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = ("tiny-sokoban", "--set")
    said = refused(capsys, tmp_path, *tiny, "validation.panel=two_boxs")
    assert "sokoban has no panel 'two_boxs'; did you mean two_boxes?" in said
    said = refused(capsys, tmp_path, *tiny, "optimization.freeze_vision=true")
    assert "the model reads only text" in said
    missing = {"torchao", "peft"}
    monkeypatch.setattr(
        early_checks, "find_spec", lambda name: None if name in missing else find_spec(name)
    )
    said = refused(capsys, tmp_path, *tiny, "optimization.optimizer=adamw_8bit")
    assert f"needs torchao: {install_text('gpu')}" in said
    said = refused(capsys, tmp_path, *tiny, "optimization.lora.rank=8")
    assert f"needs peft: {install_text('lora')}" in said


def test_a_run_does_not_begin_in_a_folder_that_is_something_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mine"
    refuse_others(folder)
    # A recipe, what a study or a scheduler leaves before a run begins, and a lock.
    for name in ("rank.py", "servers/server-0.log", "study.json", "train.o123", ".lock"):
        put(folder, name)
    refuse_others(folder)
    # One that was stopped while its engine was loading.
    (folder / CONFIG).write_text("# command: arlarena-bench train\n")
    refuse_others(folder)
    (folder / CONFIG).unlink()
    marks = ("run.json", "submission.json", "pyproject.toml", "config.json", ".git/config")
    # Not ours, although they have the names of what a run writes.
    names = (
        CONFIG,
        f"{CONFIG}/a.yaml",
        "last/model.safetensors",
        "best/model.safetensors",
        "samples/one.wav",
    )
    for name in (*marks, *names):
        put(folder, name)
        before = sorted(folder.rglob("*"))
        words = (*START, "tiny-sokoban", "--dry-run", "--out", str(folder))
        assert main(words) == EXIT_USER_ERROR
        said = capsys.readouterr().err.splitlines()[-1]
        assert f"{folder} holds {name.split('/')[0]}, but no training run; choose" in said
        assert sorted(folder.rglob("*")) == before
        # A run has begun there, or its rate was being tuned.
        for own in ("training_log.jsonl", "last/state/training_state.json", "tuning/0.001/.lock"):
            put(folder, own)
            refuse_others(folder)
            (folder / own).unlink()
            shutil.rmtree(folder / own.split("/")[0], ignore_errors=True)
        (folder / name).unlink(missing_ok=True)
        if "/" in name:
            shutil.rmtree(folder / name.split("/")[0], ignore_errors=True)


def test_an_init_without_its_tokenizer_is_refused_before_engines_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With `--gpus`, eight processes would otherwise have loaded vLLM first."""
    init = find_model("tiny-sokoban").path
    assert init is not None
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("config.json", "model.safetensors"):
        shutil.copy(init / name, bare)
    words = ("--task", "sokoban", "--scale", "paper", "--gpus", "8", "--dry-run")
    said = refused(capsys, tmp_path, str(bare), *words)
    assert "has no tokenizer" in said
    # The doctor lists it together with the other problems.
    doctor = ["doctor", "--init", str(bare), "--task", "sokoban", "--no-smoke"]
    assert main([*doctor, "--engine", "transformers"]) == 1
    assert "has no tokenizer" in capsys.readouterr().out


def test_images_in_some_tasks_need_one_process() -> None:
    own = ("--task", "sokoban", "--task", "webshop", "--set", "sokoban.view=pixels")
    run = _open_run(parse([*START, "tiny-sokoban-pixels", *own]))[0]
    check_run(run, 1)
    with pytest.raises(UserError, match=r"images in some tasks \(sokoban\) and none in others"):
        check_run(run, 2)
    alone = _open_run(parse([*START, "tiny-sokoban-pixels"]))[0]
    check_run(alone, 2)


@pytest.mark.parametrize(
    ("own", "inert"),
    [
        ((), False),
        (("optimization.mini_batches=1",), True),
        (("optimization.mini_batches=null",), True),
        (("optimization.mini_batches=1", "optimization.epochs=2"), False),
        (("optimization.mini_batches=null", "optimization.mini_batch_rows=64"), False),
        # Importance weights of the engine take effect whatever the ratio.
        (("optimization.mini_batches=1", "tis_cap=2"), True),
    ],
)
def test_clipping_that_can_do_nothing_is_said(own: tuple[str, ...], inert: bool) -> None:
    sets = [word for each in own for word in ("--set", each)]
    said = inert_text(_open_run(parse([*START, "tiny-sokoban", *sets]))[0])
    assert (said is not None) == inert
    assert said is None or said.startswith("note: an update has one optimizer step")


def test_edited_code_of_shipped_methods_is_named_on_a_track_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace, "_ROOT", tmp_path)
    files = [tmp_path / "baselines" / "learning" / f"{name}.py" for name in "abcd"]
    files[0].parent.mkdir(parents=True)
    for file in files:
        file.write_text("one")
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    arguments = parse([*START, "tiny-sokoban", "--out", str(tmp_path / "run")])
    off, _ = _open_run(arguments)
    on = replace(off, track=load_track("sokoban-standard").claim)
    assert changed_text(on) is None
    for file in files:
        file.write_text("two")
    assert changed_text(off) is None
    said = changed_text(on)
    assert said is not None
    shown = ", ".join(f"baselines/learning/{name}.py" for name in "abc")
    assert f"has changed {shown} and others, but the log will just call the method grpo: " in said


def test_a_choice_of_an_installed_package_is_named_on_a_track_without_its_plugin(
    tmp_path: Path,
) -> None:
    class Installed(GRPO):
        """Installed by an entry point, so that the log would not identify its code."""

        __module__ = "my_package.spo"
        name: Literal["installed"] = "installed"  # type: ignore[assignment]

    try:
        off, _ = _open_run(parse([*START, "tiny-sokoban", "--out", str(tmp_path / "run")]))
        on = replace(off, track=load_track("sokoban-standard").claim)
        own = replace(on, config=on.config.model_copy(update={"advantage": Installed()}))
        said = unhashed_text(own)
        assert said is not None
        assert said.startswith("warning: installed comes from my_package.spo, and without --plugin")
        hashed = replace(own, plugins={"my_package.spo": "a" * 64})
        for run in (off, on, hashed, replace(own, track=None)):
            assert unhashed_text(run) is None
    finally:
        Advantage.choices.pop("installed", None)


def test_a_name_that_is_mistaken_for_a_shipped_one_is_said_before_the_run() -> None:
    """Entries of such runs are rejected, whatever their choices."""
    track = load_track("sokoban-standard")
    grpo, gspo = (resolve_on_track(track, name, 0.0002) for name in ("grpo", "gspo"))
    mixed = grpo.model_copy(update={"clipping": gspo.clipping, "aggregation": grpo.aggregation})
    said = taken_text("grpo-st", mixed, track) or ""
    assert said.startswith("warning: grpo-st reads like the shipped grpo_st, so entries of its")
    said = taken_text("mine", grpo, track) or ""
    assert said.startswith("warning: mine has the four choices of grpo, so entries of its runs")
    assert taken_text("grpo", grpo, track) is None


def test_a_study_says_before_it_runs_which_of_its_methods_entries_are_refused_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shipped = read_recipe("gspo")
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(shipped))
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(shipped | {"advantage": {"name": "rloo"}}))
    file = tmp_path / "study.yaml"
    file.write_text(
        "name: some\nrecipes: {mine.yaml: [], own.yaml: []}\n"
        "blocks: [{tracks: [sokoban-standard], recipes: [grpo, mine, own], seeds: [0, 1]}]\n"
    )
    study = read_study(file)
    cells, custom = cells_of(study), custom_methods(study, file)
    tracks = current_tracks_of(cells, str(file), custom)
    setting = StudySetting(tracks, tmp_path, tmp_path, 1, (), custom)
    _warn_of_methods(cells, setting)
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("sokoban-standard: warning: mine has the four choices of gspo")
