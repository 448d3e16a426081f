"""Checks of a run before anything is loaded or started."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from benchmark.evaluation.protocol import IMAGES, VIEW
from benchmark.track_schema import Track
from benchmark.versions import install_text
from tasks.errors import UserError, suggestion

if TYPE_CHECKING:
    from baselines.config.run import TrainingRun
    from baselines.config.schema import TrainConfig

_SHOWN: Final = 3
"""Maximum number of changed files to name."""


def check_run(training: "TrainingRun", processes: int) -> None:
    """Refuse a run that would otherwise fail only after engines or servers have started.

    Args:
        training: The run.
        processes: Number of training processes.

    Raises:
        UserError: A task's data or a library is missing, a panel is unknown, the init's tokenizer
            or chat template cannot be used, the model has no vision encoder to freeze, or several
            processes would see images in only some tasks.
    """
    from baselines.learning.images import NO_IMAGE_SIDE
    from benchmark.engines.core.chat import Chat

    config, optimization = training.config, training.config.optimization
    panel = config.validation.panel
    for task in training.tasks:
        task.require()
        if panel is not None and panel not in task.panels():
            near = suggestion(panel, tuple(task.panels()))
            raise UserError(f"validation.panel: {task.info.name} has no panel {panel!r}{near}")
    if optimization.optimizer == "adamw_8bit" and find_spec("torchao") is None:
        raise UserError(f"optimization.optimizer=adamw_8bit needs torchao: {install_text('gpu')}")
    if optimization.lora is not None and find_spec("peft") is None:
        raise UserError(f"optimization.lora needs peft: {install_text('lora')}")
    if training.init.path is not None:
        Chat.load(training.init.path)
    if optimization.freeze_vision and not _reads_images(training):
        raise UserError(NO_IMAGE_SIDE)
    seen = [task.info.name for task in training.tasks if task.settings().get(VIEW) == IMAGES]
    if processes > 1 and 0 < len(seen) < len(training.tasks):
        raise UserError(
            "several training processes cannot train with images in some tasks "
            f"({', '.join(seen)}) and none in others: in a forward pass, one process would need "
            "the vision encoder and another would not; use one process (--gpus 1), or train these "
            "tasks separately"
        )


def inert_text(training: "TrainingRun") -> str | None:
    """A note if the clipping rule has nothing to clip; otherwise None."""
    optimization = training.config.optimization
    one_step = optimization.mini_batch_rows is None and (optimization.mini_batches or 1) == 1
    if not one_step or optimization.epochs > 1:
        return None
    return (
        "note: an update has one optimizer step, whose old policy is the current one: ratios are "
        "1, and clipping and the sequence mask do nothing; methods that differ only in these are "
        "identical (to change this: optimization.mini_batches, optimization.epochs)"
    )


def changed_text(training: "TrainingRun") -> str | None:
    """A warning on a track if the code of shipped methods was edited; otherwise None.

    A log contains the hashes of plug-ins, but nothing about a checkout.
    """
    from baselines.study.workspace import changed_methods

    if training.track is None or not (changed := changed_methods()):
        return None
    return (
        f"warning: this checkout has changed {', '.join(changed[:_SHOWN])}"
        f"{' and others' if len(changed) > _SHOWN else ''}, but the log will just call the method "
        f"{training.recipe}: use a recipe file and --plugin for a method of yours"
    )


def unhashed_text(training: "TrainingRun") -> str | None:
    """What is said on a track where an installed package brings a choice; None where none does."""
    if training.track is None or training.plugins:
        return None
    config = training.config
    for choice in (config.advantage, config.clipping, config.learner):
        if choice is None or (module := type(choice).__module__).startswith("baselines."):
            continue
        return (
            f"warning: {choice.name} comes from {module}, and without --plugin {module} the log "
            "has no hash of its code: entries on a track need it"
        )
    return None


def renamed_text(training: "TrainingRun", track: Track | None) -> str | None:
    """See `taken_text`; None for an open run."""
    if training.track is None or track is None:
        return None
    return taken_text(training.recipe, training.config, track)


def taken_text(recipe: str, config: "TrainConfig", track: Track) -> str | None:
    """A warning on a track if a custom recipe has a shipped one's name or choices; otherwise None.

    Args:
        recipe: The recipe's name.
        config: Its configuration on the track.
        track: The track.
    """
    from baselines.config.layers import RECIPES, names
    from baselines.logged_method import read_as, shipped_as

    if recipe in names(RECIPES):
        return None
    if (shipped := read_as(recipe)) is not None:
        return (
            f"warning: {recipe} reads like the shipped {shipped}, so entries of its runs are "
            "refused: rename the recipe's file"
        )
    if (shipped := shipped_as(track, config)) is None:
        return None
    return (
        f"warning: {recipe} has the four choices of {shipped}, so entries of its runs are "
        "refused: train that recipe, or name your method in a choice or a learner of a plug-in"
    )


def _reads_images(training: "TrainingRun") -> bool:
    from benchmark.engines.core.vision import reads_images

    return training.init.path is not None and reads_images(training.init.path)
