"""`train --track` as a user sees it: pins, tuning, open runs, and rejected arguments."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from baselines.config.run import TrainingRun
from baselines.inits.registry import find_model, read_registry
from baselines.tracks import registry as tracks
from baselines.tracks.registry import INDEX, index_text, load_track, pinned_index, rates_text
from benchmark.cli.main import main
from benchmark.cli.training.on_track import find_tuning
from benchmark.engines.transformers.decoding import Decoder
from benchmark.exit_codes import EXIT_ENGINE_DOWN, EXIT_USER_ERROR
from benchmark.logs.training_log import LOG, TrainingLog, read_training_log
from benchmark.models import folder_sha256
from benchmark.track_schema import deviations
from tasks.errors import UserError
from tests.support.training.logs import without_times
from tests.support.training.small_track import small_track


@pytest.fixture(autouse=True)
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A registry with one small track, `small`, and no study results."""
    folder = tmp_path / "tracks"
    folder.mkdir()
    (folder / "small.yaml").write_text(yaml.safe_dump(small_track()))
    monkeypatch.setattr(tracks, "TRACKS", folder)
    monkeypatch.setattr(tracks, "RESULTS", tmp_path / "results")
    (folder / INDEX).write_text(index_text(pinned_index()))
    torch.set_num_threads(1)
    return folder


def train(out: Path, *arguments: str, recipe: str = "grpo") -> int:
    command = ["train", "--track", "small", "--recipe", recipe, "--out", str(out)]
    return main([*command, "--seed", "5", *arguments])


def log_of(folder: Path) -> TrainingLog:
    return read_training_log(folder / LOG)


def numbers(folder: Path) -> list[dict[str, Any]]:
    """The lines of a log without the fields that depend on the machine's speed."""
    lines = [json.loads(line) for line in (folder / LOG).read_text().splitlines()][1:]
    return [without_times(line) for line in lines]


def write_rates(rate: float, recipe: str = "grpo") -> None:
    folder = tracks.RESULTS / "small"
    folder.mkdir(parents=True)
    (folder / "rates.yaml").write_text(rates_text(load_track("small"), {recipe: rate}))


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A custom recipe."""
    path = tmp_path / "mine.yaml"
    path.write_text("advantage: {name: rloo}\nclipping: {name: ppo}\naggregation: token-mean\n")
    return path


def refused(capsys: pytest.CaptureFixture[str], code: int) -> str:
    assert code == EXIT_USER_ERROR
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.slow
def test_a_run_tunes_its_rate_and_is_the_run_at_that_rate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned, known = tmp_path / "tuned", tmp_path / "known"
    assert train(tuned) == 0
    printed = capsys.readouterr()
    said = [line for line in printed.err.splitlines() if line.startswith("learning rate: ")]
    assert said[0] == (
        "learning rate: tuning over 0.0001, 0.01 first, with 2 updates each on seed 1000, "
        "judged by the rollouts"
    )
    log = log_of(tuned)
    rate = log.start.configuration["optimization"]["learning_rate"]
    means = {}
    for name in ("0.0001", "0.01"):
        short = log_of(tuned / "tuning" / name)
        assert (short.start.seed, short.start.track, short.validations) == (1000, None, ())
        assert len(short.updates) == 2
        means[float(name)] = short.updates[-1].values["rollout/success"]
    assert rate == min(means, key=lambda each: (-means[each], each))
    assert said[1].startswith(f"learning rate: {rate:g}, whose last rollouts solve ")
    track = load_track("small")
    assert log.start.track == track.claim
    assert deviations(track, log.start) == []
    assert f"weights of last: SHA-256 {folder_sha256(tuned / 'last')}" in printed.out
    assert f"# track: small, SHA-256 {track.sha256}\n" in (tuned / "config.yaml").read_text()
    # With the study's rate there is nothing to tune, and the run is the same.
    write_rates(rate)
    assert train(known) == 0
    assert f"learning rate: {rate:g}, tuned by the study of track small" in capsys.readouterr().err
    assert not (known / "tuning").exists()
    assert numbers(known) == numbers(tuned)


@pytest.mark.slow
def test_an_interrupted_tuning_makes_no_finished_training_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Decoder.step

    def step(self: Decoder) -> Any:
        if (tmp_path / "run" / "tuning" / "0.01").exists():
            raise MemoryError("no room")
        return real(self)

    with monkeypatch.context() as patch:
        patch.setattr(Decoder, "step", step)
        assert train(tmp_path / "run") == EXIT_ENGINE_DOWN
    first = tmp_path / "run" / "tuning" / "0.0001" / LOG
    before = first.stat().st_mtime_ns
    assert train(tmp_path / "run") == 0
    assert first.stat().st_mtime_ns == before
    assert log_of(tmp_path / "run").start.track is not None


@pytest.mark.slow
def test_settings_of_ones_own_make_an_open_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rates(1e-4)
    assert train(tmp_path / "run", "--set", "kl.coef=0.5", "--set", "rollout.concurrency=4") == 0
    said = capsys.readouterr().err.splitlines()
    assert "open run, not on track small: changed kl.coef" in said
    start = log_of(tmp_path / "run").start
    assert start.track is None
    (found,) = deviations(load_track("small"), start)
    assert found == "kl.coef is 0.5, the track has 0.01"
    head = (tmp_path / "run" / "config.yaml").read_text()
    assert "# track: small, open\n" in head


@pytest.mark.slow
def test_a_setting_that_moves_no_result_leaves_the_run_on_its_track(tmp_path: Path) -> None:
    write_rates(1e-4)
    own = ("--set", "optimization.micro_batch_tokens=2048", "--set", "rollout.concurrency=4")
    assert train(tmp_path / "run", *own) == 0
    start = log_of(tmp_path / "run").start
    assert start.track == load_track("small").claim
    assert start.configuration["optimization"]["micro_batch_tokens"] == 2048


@pytest.mark.slow
def test_an_open_run_does_not_go_on_as_one_of_a_track(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rates(1e-4)
    assert train(tmp_path / "run", "--set", "optimization.updates=1") == 0
    line = refused(capsys, train(tmp_path / "run"))
    small = f"a run on track small ({load_track('small').sha256[:12]}...)"
    assert f"belongs to an open run (on no track), but this is {small}: choose another" in line


@pytest.mark.slow
def test_a_dry_run_tunes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(tmp_path / "run", "--dry-run") == 0
    printed = capsys.readouterr()
    assert "learning rate: tuning over 0.0001, 0.01 first" in printed.err
    resolved = yaml.safe_load(printed.out.partition("\npolicy: ")[0])
    assert resolved["optimization"]["learning_rate"] == 1e-4
    assert not (tmp_path / "run").exists()
    # Two tuning runs with two updates of eight episodes each.
    assert "\nthe run: 2 updates and 0 validations, about " in printed.out
    assert "\nthe tuning before it: 4 updates, about " in printed.out
    # Tuning keeps the track's sizes, so an update of the run costs as much as two of its updates.
    assert train(tmp_path / "run", "--dry-run", "--set", "rollout.groups=4") == 0
    assert "\nthe tuning before it: 2 updates, about " in capsys.readouterr().out
    write_rates(1e-4)
    assert train(tmp_path / "run", "--dry-run") == 0
    assert "tuning" not in capsys.readouterr().out


@pytest.mark.slow
def test_seeds_of_a_custom_recipe_share_a_tuning(
    tmp_path: Path, mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = tmp_path / "shared"
    tuning = ("--tuning", str(shared))
    assert train(tmp_path / "s5", *tuning, recipe=str(mine)) == 0
    found = capsys.readouterr().err.splitlines()
    logs = [shared / name / LOG for name in ("0.0001", "0.01")]
    before = [path.read_bytes() for path in logs]
    assert train(tmp_path / "s6", *tuning, "--seed", "6", recipe=str(mine)) == 0
    said = capsys.readouterr().err.splitlines()
    assert f"learning rate: the tuning in {shared} is finished" in said
    (rate,) = [line for line in found if "whose last rollouts solve" in line]
    assert rate in said
    assert [path.read_bytes() for path in logs] == before
    assert not (tmp_path / "s5" / "tuning").exists() and not (tmp_path / "s6" / "tuning").exists()
    rates = [
        log_of(tmp_path / run).start.configuration["optimization"]["learning_rate"]
        for run in ("s5", "s6")
    ]
    assert rate.startswith(f"learning rate: {rates[0]:g}, ") and rates[0] == rates[1]
    # If nothing is left to tune, several processes may start.
    track, init = load_track("small"), find_model("tiny-sokoban")
    config = tracks.resolve_on_track(track, str(mine), 1e-4)
    third = TrainingRun("mine", config, track.load_tasks(), init, 7, tmp_path / "s7")
    search = find_tuning(third, track, str(mine), shared)
    assert search.text(processes=2) == f"learning rate: the tuning in {shared} is finished"
    # Half of it is left: the finished half is not counted again.
    logs[1].unlink()
    with pytest.raises(UserError, match="is tuned by a single process first"):
        search.text(processes=2)
    assert train(tmp_path / "s7", *tuning, "--dry-run", recipe=str(mine)) == 0
    printed = capsys.readouterr()
    assert f"judged by the rollouts; 1 of 2 are finished in {shared}" in printed.err
    assert "\nthe tuning before it: 2 updates, about " in printed.out
    mine.write_text(mine.read_text().replace("ppo", "cispo"))
    line = refused(capsys, train(tmp_path / "s7", *tuning, recipe=str(mine)))
    assert line.startswith(
        f"arlarena-bench train: {shared / '0.0001'} has a tuning run of another run; choose "
        "another --tuning (clipping.clip_low 0.2, now 1.0; "
    )
    assert not (tmp_path / "s7").exists()


@pytest.mark.slow
def test_a_custom_recipe_has_a_tuned_rate_by_its_name_where_results_are_given(
    tmp_path: Path, mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rates(1e-2, "mine")
    tuned = "learning rate: 0.01, tuned by the study of track small"
    given = ("--results", str(tracks.RESULTS), "--dry-run")
    assert train(tmp_path / "run", *given, recipe=str(mine)) == 0
    assert tuned in capsys.readouterr().err
    assert train(tmp_path / "run", "--dry-run", recipe=str(mine)) == 0
    assert "learning rate: tuning over 0.0001, 0.01 first" in capsys.readouterr().err
    # A custom recipe cannot use a shipped recipe's name to get its rate.
    mine.rename(tmp_path / "grpo.yaml")
    line = refused(capsys, train(tmp_path / "run", *given, recipe=str(tmp_path / "grpo.yaml")))
    assert "grpo is the name of a shipped recipe" in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--track", "smal"], "there is no track 'smal'; did you mean small?"),
        (
            ["--scale", "tiny"],
            "--scale beside --track: small pins the init (tiny-sokoban), the tasks and the sizes; "
            "remove --scale or --track",
        ),
        (["--init", "tiny-sokoban", "--task", "sokoban"], "--init, --task beside --track: small"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused(capsys, train(tmp_path / "run", *arguments))
    assert line.startswith("arlarena-bench train: ") and message in line
    assert not (tmp_path / "run").exists()


def test_a_track_file_that_was_changed_is_refused(
    registry: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = small_track({"settings": {"kl": {"coef": 0.5}}})
    (registry / "small.yaml").write_text(yaml.safe_dump(content))
    line = refused(capsys, train(tmp_path / "run"))
    assert "track small was changed: " in line and line.endswith("; restore the file")


def test_an_init_that_is_not_the_tracks_is_refused(
    registry: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (registry / "small.yaml").write_text(
        yaml.safe_dump(small_track({"init": {"sha256": "0" * 64}}))
    )
    (registry / INDEX).write_text(index_text(pinned_index()))
    line = refused(capsys, train(tmp_path / "run"))
    found = read_registry()["tiny-sokoban"].sha256
    assert found is not None
    assert f"track small starts from tiny-sokoban with SHA-256 {'0' * 12}..., but " in line
    assert f"the one found here has {found[:12]}...; use the version" in line


def test_without_a_track_an_init_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, main(["train", "--recipe", "grpo"]))
    assert "--init is missing: give the starting weights, or a --track, which pins them" in line


def test_a_tuning_is_of_a_track(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", "--recipe", "grpo", "--init", "tiny-sokoban", "--tuning", "shared"]
    line = refused(capsys, main(command))
    assert "--tuning needs a --track: it holds a track's tuning runs" in line


def test_several_processes_do_not_tune(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    line = refused(capsys, train(tmp_path / "run"))
    assert "the learning rate on track small is tuned by a single process first" in line
