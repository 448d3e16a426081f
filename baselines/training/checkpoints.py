"""Checkpoints: the last state, to resume from, and the best model; `eval --model` reads both.

A new folder is written next to the old one and then replaces it, so a crash or a full disk always
leaves one complete checkpoint. Resuming loads files through accelerate; do not resume from a folder
that somebody else made.
"""

import contextlib
import errno
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from accelerate import Accelerator
from accelerate.utils import RNG_STATE_NAME, load
from safetensors.torch import load_file, save_file

from baselines.algorithms.custom_learner import packed, restore_state, state_of
from baselines.config.run import PLUGIN
from baselines.learning.lora import has_updates, merged, write_updates
from baselines.learning.sharding import full_weights, is_sharded
from baselines.training.tracking import facts_of
from benchmark.engines.core.chat import Chat
from benchmark.files import replace_folder, sync_tree, write_atomically
from benchmark.logs.training_log import LOG, read_training_log
from tasks.errors import UserError
from tasks.texts import digest_text, first_line

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LAST, BEST = "last", "best"
ADAPTER = "adapter"
_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)
_STATE, _FACTS, _OLDER = "state", "training_state.json", "older_policy.safetensors"
_LEARNER = "learner.pt"
STATE_OF_LAST = f"{LAST}/{_STATE}/{_FACTS}"
"""File that the folder of a run with a checkpoint has."""


@dataclass(frozen=True, slots=True)
class TrainingState:
    """State of a run, besides weights, optimizer and random generators.

    Attributes:
        update: Number of completed updates.
        validated: Last validated update, 0 for the init; -1 before any validation.
        position: Groups taken from the training streams.
        seconds: Compute so far, over all sessions.
        best: Highest validation success so far; None before the first validation.
        skipped: Consecutive optimizer steps that were not finite, of policy and critic; None in
            older checkpoints, which do not store it.
        older_version: Weight version of cross-policy sampling's older policy.
        checkpoint_seconds: Time that the last checkpoint took.
        configuration: SHA-256 of the run's identity: its resolved configuration, task, init, seed
            and plug-ins.
    """

    update: int
    validated: int
    position: int
    seconds: float
    best: float | None
    skipped: tuple[int, int] | None
    older_version: int
    checkpoint_seconds: float
    configuration: str

    @property
    def progress(self) -> tuple[int, int]:
        """Progress, for comparisons: completed updates, and the last validated one."""
        return self.update, self.validated


def save_last(
    accelerator: Accelerator,
    model: Any,
    chat: Chat,
    folder: Path,
    state: TrainingState,
    older: dict[str, torch.Tensor] | None = None,
    learner: Any = None,
) -> None:
    """Replace the last checkpoint.

    Args:
        accelerator: Processes, optimizer and random generators.
        model: The policy.
        chat: Its tokenizer.
        folder: The run's folder.
        state: Where the run is.
        older: Weights of the older policy of cross-policy sampling, if any.
        learner: A `Learner` that may remember something (`state_dict`).

    Raises:
        UserError: The disk is full or failed, or what the learner remembers cannot be kept; the one
            before is still there.
    """
    # In all processes: it may gather sharded tensors, and its errors end all of them.
    remembered = {} if learner is None else state_of(learner)
    with _writing(folder, LAST, "checkpoint"):
        fresh = _fresh(accelerator, folder, LAST)
        _export(accelerator, model, chat, fresh)
        accelerator.save_state(str(fresh / _STATE))
        accelerator.wait_for_everyone()
        if accelerator.is_main_process:
            if older is not None:
                # Tied weights are one tensor under two names, which safetensors refuses.
                copies = {name: value.cpu().clone().contiguous() for name, value in older.items()}
                save_file(copies, fresh / _STATE / _OLDER)
            if remembered:
                (fresh / _STATE / _LEARNER).write_bytes(packed(remembered))
            # The facts say that the rest is whole: they come when it is on the disk.
            sync_tree(fresh)
            facts = json.dumps(asdict(state), indent=1) + "\n"
            write_atomically(fresh / _STATE / _FACTS, facts.encode())
            replace_folder(fresh, folder / LAST)
    accelerator.wait_for_everyone()


def save_best(accelerator: Accelerator, model: Any, chat: Chat, folder: Path) -> None:
    """Replace the best model.

    Raises:
        UserError: See `save_last`.
    """
    with _writing(folder, BEST, "best model"):
        fresh = _fresh(accelerator, folder, BEST)
        _export(accelerator, model, chat, fresh)
        accelerator.wait_for_everyone()
        if accelerator.is_main_process:
            replace_folder(fresh, folder / BEST)
    accelerator.wait_for_everyone()


def find_last(
    folder: Path, configuration: str, facts: Mapping[str, Any] = MappingProxyType({})
) -> TrainingState | None:
    """The state of a folder's last checkpoint; None if there is none.

    Args:
        folder: The run's folder.
        configuration: See `TrainingState`.
        facts: Flat settings and plug-ins of the run to resume; the error message names differences
            to those in the folder's log.

    Raises:
        UserError: It cannot be read, or belongs to another run.
    """
    _mend(folder)
    path = folder / STATE_OF_LAST
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_text("utf-8"))
        # Older checkpoints lack these; they were written after the validation of their update.
        content = {"validated": content["update"], "skipped": None, **content}
        content["skipped"] = content["skipped"] and tuple(content["skipped"])
        state = TrainingState(**{each.name: content[each.name] for each in fields(TrainingState)})
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path} is not a training state: {error}") from error
    if state.configuration != configuration:
        raise UserError(
            f"{folder} has a run with another configuration, init, seed or plug-in code; "
            "choose another --out" + what_differs(folder / LOG, facts)
        )
    return state


def what_differs(path: Path, facts: Mapping[str, Any]) -> str:
    """The settings in which a log's run differs, as the end of a sentence."""
    if not facts or not path.exists():
        return ""
    there = facts_of(read_training_log(path, allow_torn=True).start)
    # List code first: it can explain the settings that it introduces.
    names = sorted({*there, *facts}, key=lambda name: (not name.startswith(PLUGIN), name))
    differing = [
        _difference(name, there.get(name, "none"), facts.get(name, "none"))
        for name in names
        if there.get(name) != facts.get(name)
    ]
    return f" ({'; '.join(differing[:3])}{'; ...' if len(differing) > 3 else ''})"


def _difference(name: str, there: object, now: object) -> str:
    """Describe a setting, or a plug-in's code, that has changed."""
    if not name.startswith(PLUGIN):
        return f"{name} {there}, now {now}"
    before, after = (
        "none" if each == "none" else f"SHA-256 {digest_text(str(each))}" for each in (there, now)
    )
    return f"the code of {name} differs: {before}, now {after}"


def load_last(
    accelerator: Accelerator, folder: Path, learner: Any = None
) -> dict[str, torch.Tensor] | None:
    """Put weights, optimizers, generators and what the learner remembers back.

    Returns:
        The older policy's weights, if any.

    The number of processes may have changed: no result depends on the random generators of added
    processes.

    Raises:
        UserError: It was written with FSDP and this run has none, or vice versa; files are missing
            or damaged; or the code of a custom learner raised an error.
    """
    saved = folder / LAST / _STATE
    path = saved / _OLDER
    check_format(folder, is_sharded(accelerator))
    generators = sorted(saved.glob(f"{RNG_STATE_NAME}_*.pkl"))
    own = saved / f"{RNG_STATE_NAME}_{accelerator.process_index}.pkl"
    try:
        # accelerate ignores generators that it cannot read.
        if own in generators or not generators or accelerator.process_index < len(generators):
            load(own)
        accelerator.load_state(str(saved))
        older = load_file(path) if path.exists() else None
        known = saved / _LEARNER
        remembered = torch.load(known, "cpu", weights_only=True) if known.exists() else None
    # Every format of its files has errors of its own, and damaged pickles raise anything.
    except Exception as error:
        reason = first_line(error)
        raise UserError(
            f"the checkpoint {folder / LAST} could not be loaded: {type(error).__name__}: "
            f"{reason}. The folder may be intact, for example if memory ran out or a disk failed "
            "temporarily: keep it and run the same command again. If a file in it is damaged, "
            "start the run again with another --out"
        ) from error
    if learner is not None and remembered is not None:
        restore_state(learner, remembered)
    return older


def check_format(folder: Path, wanted: bool) -> None:
    """Check that a run's last checkpoint, if any, is sharded exactly if the run is.

    Args:
        folder: The run's folder.
        wanted: Whether the run is sharded.

    Raises:
        UserError: It is not.
    """
    saved = folder / LAST / _STATE
    sharded = any(saved.glob("optimizer_*/.metadata"))
    if sharded == wanted or not saved.exists():
        return
    how = {True: "with FSDP", False: "without FSDP"}
    raise UserError(
        f"the checkpoint {folder / LAST} was written {how[sharded]}, and this run is "
        f"{how[wanted]}: resume it the way it was started (FSDP: several training processes, by "
        "--gpus or accelerate launch --use_fsdp); the model in it can be used anywhere"
    )


def _export(accelerator: Accelerator, model: Any, chat: Chat, folder: Path) -> None:
    """Write a model folder: configuration, safetensors, tokenizer, image processor if any.

    LoRA updates are merged, and also written separately to a subfolder.
    """
    weights: dict[str, Any] = dict(full_weights(accelerator, model, everywhere=False))
    bare: PreTrainedModel = accelerator.unwrap_model(model)
    if accelerator.is_main_process:
        if has_updates(bare):
            write_updates(bare, weights, folder / ADAPTER)
            weights = merged(bare, weights, device=torch.device("cpu"))
        bare.save_pretrained(folder, state_dict=weights)
        chat.save(folder)


def _fresh(accelerator: Accelerator, folder: Path, name: str) -> Path:
    """An empty folder next to a checkpoint, for writing the next one."""
    fresh = folder / f"{name}.new"
    if accelerator.is_main_process:
        shutil.rmtree(fresh, ignore_errors=True)
    accelerator.wait_for_everyone()
    return fresh


def _mend(folder: Path) -> None:
    """Repair a crash between the two renames of `replace_folder`.

    The last checkpoint becomes the new one. The best model goes back to the old one: its update has
    no checkpoint yet and will be repeated.
    """
    fresh = folder / f"{LAST}.new"
    # Other processes do the same at the same time.
    with contextlib.suppress(FileNotFoundError):
        if not (folder / LAST).exists() and (fresh / _STATE / _FACTS).exists():
            fresh.rename(folder / LAST)
        if not (folder / BEST).exists():
            (folder / f"{BEST}.old").rename(folder / BEST)


@contextlib.contextmanager
def _writing(folder: Path, name: str, what: str) -> Iterator[None]:
    """Turn a disk failure into a `UserError`, and free the disk space.

    Raises:
        UserError: The disk failed; the message says what to do.
    """
    try:
        yield
    except Exception as error:
        reason = _disk_failure(error)
        if reason is None:
            raise
        moved = not (folder / name).exists() and (folder / f"{name}.old").exists()
        if not moved:  # else the new one is complete
            shutil.rmtree(folder / f"{name}.new", ignore_errors=True)
        kept = "; an earlier one is kept" if moved or (folder / name).exists() else ""
        closed = isinstance(error, OSError) and error.errno in _CLOSED
        advice = "make it writable" if closed else "free disk space"
        raise UserError(
            f"the {what} in {folder} cannot be written: {reason}{kept}: {advice} and run the same "
            "command again"
        ) from error


def _disk_failure(error: Exception) -> str | None:
    """The system's message, if the error is a disk failure."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    text = str(error)
    # safetensors and tokenizers raise their own exceptions, which contain the system's message.
    if "os error" in text:
        return text.splitlines()[0]
    # torch's writer raises a RuntimeError whose text depends on where it failed.
    torchs = ("inline_container", "iostream", "PytorchStreamWriter")
    return "a file could not be written whole" if any(mark in text for mark in torchs) else None
