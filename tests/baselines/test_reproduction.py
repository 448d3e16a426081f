"""From a training log to its command, which must resolve to the logged configuration."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from baselines.config.layers import RECIPES, SCALES, names, resolve
from baselines.config.schema import TrainConfig
from baselines.inits.registry import read_registry
from baselines.reproduction import check_init, logged_configuration, train_command
from baselines.tracks import registry as tracks
from baselines.tracks.registry import INDEX, index_text, load_track, pinned_index, rates_text
from benchmark.cli.main import command_line
from benchmark.commands_of_entry import commands_of
from benchmark.flat import flat
from benchmark.logs.lines import Start
from benchmark.logs.training_log import TrainingLog, parse_training_log, read_training_log
from benchmark.stability.run_end import divergence
from benchmark.submissions.check import read_accepted
from benchmark.submissions.format.schema import Submission
from benchmark.submissions.reading.folder import read_submission
from tasks.errors import UserError
from tasks.options import parse_settings
from tasks.registry import load_task
from tests.support.submissions.small import Copy
from tests.support.training.logs import start_line, update_line, write_log

ENTRIES = sorted(
    path.parent for path in (Path(__file__).parents[2] / "submissions").glob("*/submission.json")
)
Write = Callable[..., TrainingLog]


def logs_of(folder: Path) -> list[TrainingLog]:
    """The training logs of an entry."""
    submission: Submission = read_submission(folder)
    paths = [point.training_log for point in submission.checkpoints if point.training_log]
    return [parse_training_log(Copy(folder).read(path), Path(path)) for path in paths]


def resolved(words: tuple[str, ...]) -> tuple[TrainConfig, dict[str, dict[str, str]]]:
    """The configuration that `train` derives from a command, and its task settings."""
    program, *rest = words
    assert program == "arlarena-bench"
    given = command_line().parse_args([*rest, "--out", "x"])
    of_tasks = [text for text in given.set if text.partition(".")[0] in given.task]
    own = [text for text in given.set if text not in of_tasks]
    chosen = parse_settings(of_tasks)
    configured = {name: load_task(name).configured(chosen.get(name, {})) for name in given.task}
    settings = {name: dict(task.settings()) for name, task in configured.items()}
    return resolve(given.recipe, given.scale, given.task, own), settings


@pytest.mark.parametrize("folder", ENTRIES, ids=lambda folder: folder.name)
def test_the_command_of_every_entry_is_its_logged_configuration(
    folder: Path, tmp_path: Path
) -> None:
    for log in logs_of(folder):
        command, start = train_command(log, str(tmp_path)), log.start
        assert not command.files and not command.note
        given = command_line().parse_args(list(command.words[1:]))
        assert (given.recipe, given.seed) == (start.recipe, start.seed)
        if start.track is not None:
            track = load_track(start.track.name)
            rate = start.configuration["optimization"]["learning_rate"]
            config = tracks.resolve_on_track(track, given.recipe, rate)
            assert (given.track, track.sha256) == (start.track.name, start.track.sha256)
            # Fields that were added later have their defaults.
            wanted, _ = logged_configuration(start)
            assert config == wanted
            continue
        config, settings = resolved(command.words)
        logged = {k: v for k, v in start.configuration.items() if k != "tasks"}
        found = flat(config.model_dump(mode="json"))
        assert {name: found[name] for name in flat(logged)} == flat(logged)
        assert settings == start.configuration["tasks"]
        assert (given.init, given.task) == (start.init.name, start.task.split("+"))
        for place, setting in enumerate(given.set):
            fewer = [*given.set[:place], *given.set[place + 1 :]]
            without = resolve(given.recipe, given.scale, given.task, fewer)
            assert without != config, f"{setting} changes nothing"


@pytest.mark.slow
@pytest.mark.parametrize("folder", ENTRIES, ids=lambda folder: folder.name)
def test_the_readme_of_every_entry_says_how_to_reproduce_it(folder: Path) -> None:
    entry = read_accepted(folder)
    readme = (folder / "README.md").read_text()
    assert f"arlarena-bench reproduce submissions/{folder.name}" in readme
    for point in entry.checkpoints:
        manifests = [run.manifest for run in point.runs]
        out = f"runs/reproduce-{folder.name}"
        found = commands_of(point.checkpoint.seed, manifests, None, None, out)
        assert "\n".join(found.lines) in readme


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write and read a log with a recipe's configuration."""

    def made(
        recipe: str = "grpo", *own: str, scale: str = "tiny", task: str = "sokoban", **changes: Any
    ) -> TrainingLog:
        config = resolve(recipe, scale, [task], own).model_dump(mode="json")
        settings = {task: dict(load_task(task).settings())}
        init = {"name": "tiny-sokoban", "sha256": read_registry()["tiny-sokoban"].sha256}
        facts: dict[str, Any] = {
            "configuration": {**config, "tasks": settings},
            "init": {**init, "kind": "init", "revision": None},
            "task": task,
        }
        lines = [start_line(recipe, 3, **facts | changes), update_line(1)]
        return read_training_log(write_log(tmp_path / "log.jsonl", lines))

    return made


def settings_of(log: TrainingLog) -> list[str]:
    words = train_command(log, "out").words
    return [words[place + 1] for place, word in enumerate(words) if word == "--set"]


def test_a_recipe_at_a_scale_needs_no_setting(write: Write) -> None:
    words = train_command(write("sampo"), "out").words
    assert words == (
        *("arlarena-bench", "train", "--recipe", "sampo", "--init", "tiny-sokoban"),
        *("--task", "sokoban", "--scale", "tiny", "--seed", "3"),
        *("--engine", "transformers", "--dtype", "float32"),
    )


def test_a_log_does_not_turn_the_sandbox_off_here(write: Write) -> None:
    """Rerunning somebody else's training run would otherwise execute its programs unprotected."""
    log = write("grpo", task="tir_math")
    assert train_command(log, "out").words
    log.start.configuration["tasks"]["tir_math"]["sandbox"] = "unsafe"
    with pytest.raises(UserError, match=r"trained with tir_math.sandbox=unsafe.*same on this mach"):
        train_command(log, "out")


def test_importance_weights_that_were_off_stay_off(write: Write) -> None:
    # `train` enables them if the engine is separate from the trainer.
    assert settings_of(write("grpo", engine={"kind": "openai"})) == ["tis_cap=null"]
    assert "tis_cap=null" in settings_of(write("grpo", "rollout.max_staleness=1"))


@pytest.mark.slow
@pytest.mark.parametrize("scale", names(SCALES))
@pytest.mark.parametrize("task", ["sokoban", "alfworld", "webshop", "tir_math"])
def test_the_nearest_scale_is_named(write: Write, scale: str, task: str) -> None:
    words = train_command(write("gspo", "kl.coef=0.25", scale=scale, task=task), "out").words
    assert words[words.index("--scale") + 1] == scale
    assert words[words.index("--set") + 1 :][:1] == ("kl.coef=0.25",)
    assert words.count("--set") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "own"),
    [
        ("sampo", ["sampling.dynamic=null"]),
        ("grpo", ["sampling.dynamic={}"]),
        ("grpo", ["sampling.dynamic={}", "sampling.dynamic.tries=5"]),
        ("grpo", ["clipping.name=cispo", "clipping.clip_low=0.75"]),
        ("grpo", ["clipping.sequence_mask={}", "clipping.sequence_mask.delta=0.5"]),
        ("grpo", ["optimization.mini_batch_rows=64"]),
        ("grpo", ["format_penalty=0.05", "optimization.betas=[0.9, 0.95]"]),
        ("grpo", ["optimization.mixed_precision='no'", "optimization.learning_rate=1.0e-07"]),
        ("grpo", ["validation.every=null", "unit=turn"]),
        ("grpo", ["optimization.lora.rank=8", "optimization.lora.alpha=32"]),
        ("grpo", ["void_episodes=masked"]),
        (
            "grpo",
            [
                "chat_template_kwargs.enable_thinking=false",
                "chat_template_kwargs.budget=1.0e-05",
                "chat_template_kwargs.words=[a, 'null']",
                "chat_template_kwargs.none=null",
            ],
        ),
    ],
)
def test_settings_are_those_that_differ(write: Write, recipe: str, own: list[str]) -> None:
    log = write(recipe, *own)
    wanted = [each for each in own if "mixed_precision" not in each]
    assert sorted(settings_of(log)) == sorted(wanted)
    config, _ = resolved(train_command(log, "out").words)
    assert config == resolve(recipe, "tiny", ["sokoban"], own)


def test_settings_of_tasks_are_named(write: Write) -> None:
    changed = {"webshop": dict(load_task("webshop").configured({"compat": "on"}).settings())}
    log = write(task="webshop")
    configuration = log.start.configuration | {"tasks": changed}
    log = write(task="webshop", configuration=configuration)
    assert settings_of(log) == ["webshop.compat=on"]
    assert resolved(train_command(log, "out").words)[1] == changed


def test_settings_that_were_added_later_have_their_defaults(write: Write) -> None:
    log = write()
    old = {k: v for k, v in log.start.configuration.items() if k not in ("tis_cap", "unit")}
    assert settings_of(write(configuration=old)) == []


def test_a_recipe_of_the_authors_own_is_written(write: Write, tmp_path: Path) -> None:
    log = write("dapo_gigpo", "kl.coef=0.5")
    start = json.loads(log.path.read_text().splitlines()[0]) | {"recipe": "my_method"}
    log = read_training_log(write_log(tmp_path / "own.jsonl", [start, update_line(1)]))
    found = train_command(log, str(tmp_path))
    ((path, text),) = found.files.items()
    assert path == f"{tmp_path}/my_method.yaml"
    assert "my_method" not in names(RECIPES)
    Path(path).write_text(text)
    config, _ = resolved(found.words)
    assert config == resolve("dapo_gigpo", "tiny", ["sokoban"], ["kl.coef=0.5"])
    assert found.words[found.words.index("--recipe") + 1] == path


def test_a_run_that_was_stopped_on_collapse_is_so_again(tmp_path: Path, write: Write) -> None:
    log = write("grpo", "optimization.updates=30", "validation.every=null")
    start = json.loads(log.path.read_text().splitlines()[0])
    lines = [update_line(n, {"rollout/group_std": 1.0 if n < 10 else 0.01}) for n in range(1, 21)]
    stopped = read_training_log(write_log(tmp_path / "stopped.jsonl", [start, *lines]))
    assert train_command(stopped, "out").words[-1] == "--stop-on-collapse"
    assert "--stop-on-collapse" not in train_command(log, "out").words
    # Its last steps are not finite, so the run ended for another reason than collapse.
    limit = log.start.configuration["optimization"]["max_skipped"]
    steps = {"policy/optimizer_steps": 0.0, "policy/skipped_steps": limit + 1.0}
    diverged = [*lines[:-1], update_line(20, {"rollout/group_std": 0.01, **steps})]
    log = read_training_log(write_log(tmp_path / "diverged.jsonl", [start, *diverged]))
    assert divergence(log) is not None
    assert "--stop-on-collapse" not in train_command(log, "out").words


def test_a_configuration_of_another_version_is_refused(write: Write) -> None:
    log = write()
    strange = write(configuration=log.start.configuration | {"warp": 9})
    with pytest.raises(
        UserError, match=r"not valid in this version \(warp: .*use the version that"
    ):
        train_command(strange, "out")


@pytest.mark.parametrize("stated", ["x", {"sokoban": "x"}, {"sokoban": ["x"]}])
def test_settings_of_tasks_in_another_form_are_refused(write: Write, stated: object) -> None:
    strange = write(configuration=write().start.configuration | {"tasks": stated})
    with pytest.raises(UserError, match=r"not valid in this version \(tasks.*use the version that"):
        train_command(strange, "out")


def start_of(log: TrainingLog, **init: Any) -> Start:
    return log.start.model_copy(update={"init": log.start.init.model_copy(update=init)})


def test_an_init_that_is_not_the_same_is_named(write: Write) -> None:
    log = write()
    check_init(log.start)
    with pytest.raises(UserError, match="the shipped init has changed"):
        check_init(start_of(log, sha256="0" * 64))
    with pytest.raises(UserError, match=r"'tiny-sokobam', .* did you mean tiny-sokoban"):
        check_init(start_of(log, name="tiny-sokobam"))
    with pytest.raises(UserError, match="weights that are not public"):
        check_init(start_of(log, kind="folder", sha256="0" * 64))
    # A copy of a registered init in a folder of another name.
    check_init(start_of(log, kind="folder", name="copy"))


@pytest.fixture
def on_track(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Write) -> TrainingLog:
    """The log of a run on the only track of a registry that has no tuned rates."""
    folder = tmp_path / "tracks"
    folder.mkdir()
    shipped = yaml.safe_load((tracks.TRACKS / "sokoban-standard.yaml").read_text())
    (folder / "small.yaml").write_text(yaml.safe_dump(shipped))
    monkeypatch.setattr(tracks, "TRACKS", folder)
    monkeypatch.setattr(tracks, "RESULTS", tmp_path / "results")
    (folder / INDEX).write_text(index_text(pinned_index()))
    track = load_track("small")
    config = tracks.resolve_on_track(track, "gspo", track.learning_rate.rates[0])
    configuration = {**config.model_dump(mode="json"), "tasks": {"sokoban": {}}}
    return write("gspo", configuration=configuration, track=track.claim.model_dump())


SHORT = (
    *("arlarena-bench", "train", "--track", "small", "--recipe", "gspo", "--seed", "3"),
    *("--engine", "transformers", "--dtype", "float32"),
)


def test_a_rate_that_no_study_has_tuned_is_named(on_track: TrainingLog) -> None:
    """The short command would tune first and use the best rate."""
    found = train_command(on_track, "out")
    assert "no study here has tuned gspo on track small" in found.note
    assert "--track" not in found.words
    assert resolved(found.words)[0] == logged_configuration(on_track.start)[0]


def test_a_run_on_a_track_has_a_short_command_where_its_rate_is_the_tuned_one(
    on_track: TrainingLog,
) -> None:
    track = load_track("small")
    first, second = track.learning_rate.rates[:2]
    folder = tracks.RESULTS / "small"
    folder.mkdir(parents=True)
    (folder / tracks.RATES).write_text(rates_text(track, {"gspo": first}))
    assert train_command(on_track, "out").words == SHORT
    (folder / tracks.RATES).write_text(rates_text(track, {"gspo": second}))
    found = train_command(on_track, "out")
    assert f"tuned the learning rate of gspo to {second:g}" in found.note
    assert "--track" not in found.words
    assert resolved(found.words)[0] == logged_configuration(on_track.start)[0]


def test_a_track_that_is_gone_or_changed_is_refused(on_track: TrainingLog) -> None:
    index = tracks.TRACKS / INDEX
    file = tracks.TRACKS / "small.yaml"
    content = yaml.safe_load(file.read_text())
    content["settings"]["optimization"]["updates"] += 1
    file.write_text(yaml.safe_dump(content))
    index.write_text(index_text(pinned_index()))
    with pytest.raises(UserError, match="track small .*the track has changed"):
        train_command(on_track, "out")
    file.rename(tracks.TRACKS / "smaller.yaml")
    index.write_text(index_text(pinned_index()))
    with pytest.raises(UserError, match="'small', which no longer exists; did you mean sma"):
        train_command(on_track, "out")


def test_a_claim_that_is_not_kept_is_refused(on_track: TrainingLog) -> None:
    log = on_track
    configuration = json.loads(json.dumps(log.start.configuration))
    configuration["kl"]["coef"] = 0.5
    start = log.start.model_copy(update={"configuration": configuration})
    changed = TrainingLog(log.path, start, log.updates, log.validations)
    with pytest.raises(
        UserError, match="claims track small but has another configuration: kl.coef"
    ):
        train_command(changed, "out")
