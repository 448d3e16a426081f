"""Behavior cloning: supervised training on demonstrations of a scripted player.

The loss is the mean negative log-likelihood of the response tokens (end-of-turn token included)
given the prompt; prompt tokens are not trained on. A step's batch depends only on the recipe's seed
and the step, so a resumed run continues exactly.
"""

import json
import logging
import math
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from accelerate import Accelerator
from safetensors.torch import load_file, save_file
from torch.nn.functional import cross_entropy

from baselines.cloning.demonstrations import Demonstration, data_sha256, demonstrate
from baselines.cloning.examples import Example, batch_at, by_task, encode
from baselines.cloning.passes import deal, predict
from baselines.cloning.recipe import BCRecipe, Training
from baselines.cloning.tiny_models import new_model, train_tokenizer
from baselines.cloning.tiny_vision import add_image_tokens, new_vision, new_vision_model
from baselines.inits.registry import find_model
from baselines.training.tracking import check_trackers
from benchmark.engines.core.chat import Chat, quiet_transformers
from benchmark.engines.transformers.tree_attention import use_tree_attention
from benchmark.files import replace_folder, sync_tree, write_atomically
from benchmark.flat import tracker_values
from tasks.chat.messages import images_of, text_of
from tasks.errors import UserError
from tasks.registry import load_task
from tasks.seeding import sha256_text
from tasks.texts import counted

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LOG = "bc_log.jsonl"
_CHECKPOINT = "checkpoint"
_ENDS = "ends"
BEGUN = (LOG, f"{_CHECKPOINT}/step", f"{_CHECKPOINT}.new/step")
"""Files that mark the folder of a model that was begun here."""
WRITTEN = ("README.md", "recipe.yaml", "evaluation", _CHECKPOINT, _ENDS)
"""What a model's folder gets later, besides the model."""
_TOKENIZER_TURNS = 5000
"""Number of demonstrations on which a new tokenizer is trained."""
_LOOKED_AT = 200
"""Number of demonstrations whose images initialize a new vision encoder."""
_ROLES = ["user\n", "assistant\n"]
"""Text that the chat template adds to every prompt, for tokenizers optimized for short prompts."""


@dataclass(frozen=True, slots=True)
class CloningProgress:
    """One line of `bc_log.jsonl`.

    Attributes:
        step: Completed optimizer steps.
        loss: Mean negative log-likelihood per response token of the step's batch, in nats.
        token_accuracy: Share of response tokens to which the model gave the highest probability.
        grad_norm: Global gradient norm before clipping.
        learning_rate: Learning rate of this step.
        seconds: Seconds since this session began.
    """

    step: int
    loss: float
    token_accuracy: float
    grad_norm: float
    learning_rate: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Cloned:
    """The result, for the model card.

    Attributes:
        main_process: Whether this is the main process, which continues.
        architecture: Name of the model class.
        parameters: Number of parameters.
        turns: Number of demonstrated turns.
        data_sha256: Hash of the demonstrations.
    """

    main_process: bool
    architecture: str
    parameters: int
    turns: int
    data_sha256: str


def clone(
    recipe: BCRecipe,
    out: Path,
    trackers: tuple[str, ...] = (),
    on_step: Callable[[CloningProgress], None] = lambda progress: None,
    env_processes: int | None = None,
) -> Cloned:
    """Train a model and write it to a folder; resume from the folder's checkpoint, if any.

    The checkpoint is kept, so that later steps can be interrupted, too; see `remove_checkpoint`.

    Args:
        recipe: Everything that determines the result.
        out: Folder for the model; contains the checkpoint and the log during training.
        trackers: Names of accelerate trackers that also receive the log.
        on_step: Called after every step.
        env_processes: See `demonstrate`.

    Raises:
        UserError: A tracker or the initial model is not usable, no demonstration of a task
            succeeded, or a turn is longer than the model's context.
        OSError: The folder cannot be written.
    """
    check_trackers(trackers)
    out.mkdir(parents=True, exist_ok=True)
    demonstrations = _demonstrations(recipe, env_processes)
    model, chat = _start(recipe, demonstrations)
    context = model.config.get_text_config().max_position_embeddings
    examples = encode(chat, demonstrations, context, recipe.training)
    accelerator = _accelerator(recipe, out, trackers)
    if accelerator.device.type == "cpu":
        use_tree_attention(model)
    optimizer = torch.optim.AdamW(
        [weights for weights in model.parameters() if weights.requires_grad],
        lr=recipe.training.learning_rate,
        betas=(0.9, 0.95),
        weight_decay=recipe.training.weight_decay,
    )
    model, optimizer = accelerator.prepare(model, optimizer)
    started = _fingerprint(recipe, demonstrations)
    done = _resume(accelerator, out, started)
    _train(accelerator, model, optimizer, chat, examples, recipe, out, done, started, on_step)
    trained = accelerator.unwrap_model(model)
    _average(trained, out, recipe.training.averaged_steps)
    if accelerator.is_main_process:
        trained.save_pretrained(out)
        chat.save(out)
    accelerator.wait_for_everyone()
    # This closes the trackers and ends the process group: no synchronization is possible from here.
    accelerator.end_training()
    return Cloned(
        main_process=accelerator.is_main_process,
        architecture=type(trained).__name__,
        parameters=trained.num_parameters(),
        turns=len(demonstrations),
        data_sha256=data_sha256(demonstrations),
    )


def _demonstrations(recipe: BCRecipe, env_processes: int | None) -> list[Demonstration]:
    """Play the demonstrations, task by task.

    Raises:
        UserError: No demonstration of a task succeeded.
    """
    demonstrations: list[Demonstration] = []
    for name, shown in recipe.sources.items():
        task = load_task(name).configured(shown.settings)
        turns = demonstrate(
            task, shown.episodes, shown.stream, env_processes, shown.noise, shown.mistakes
        )
        if not turns:
            raise UserError(
                f"{name}: the scripted player solved none of {shown.episodes} episodes; "
                "ask for more episodes or less noise"
            )
        demonstrations += turns
    return demonstrations


def _accelerator(recipe: BCRecipe, out: Path, trackers: tuple[str, ...]) -> Accelerator:
    """Set up processes, devices and trackers."""
    # accelerate warns at every checkpoint that tied weights are saved once, as intended.
    logging.getLogger("accelerate").setLevel(logging.ERROR)
    quiet_transformers()
    accelerator = Accelerator(log_with=list(trackers) or None, project_dir=out)
    accelerator.init_trackers("behavior-cloning", config=tracker_values(recipe.model_dump()))
    return accelerator


def _start(recipe: BCRecipe, demonstrations: list[Demonstration]) -> tuple["PreTrainedModel", Chat]:
    """The initial model and its chat format."""
    if recipe.model is None:
        from benchmark.engines.transformers.engine import load_model

        folder = find_model(str(recipe.init)).path
        assert folder is not None
        chat = Chat.load(folder)
        return load_model(folder, "auto", "cpu").train(), chat
    each = _TOKENIZER_TURNS // len(recipe.sources)
    texts = [
        text
        for turns in by_task(demonstrations).values()
        for turn in turns[:each]
        for text in (*map(text_of, turn.messages), turn.response)
    ]
    if recipe.model.symbol_runs:
        texts += _ROLES * len(texts)
    tokenizer = train_tokenizer(texts, recipe.model)
    stop_ids = frozenset({tokenizer.eos_token_id})
    if recipe.model.vision is None:
        return new_model(recipe.model, tokenizer, recipe.seed).train(), Chat(tokenizer, stop_ids)
    add_image_tokens(tokenizer)
    vision = new_vision(recipe.model.vision, tokenizer)
    first = (image for turn in demonstrations[:_LOOKED_AT] for image in images_of(turn.messages))
    seeing = new_vision_model(recipe.model, tokenizer, recipe.seed, vision, first)
    return seeing.train(), Chat(tokenizer, stop_ids, new_vision=vision)


def _train(
    accelerator: Accelerator,
    model: "PreTrainedModel",
    optimizer: torch.optim.Optimizer,
    chat: Chat,
    examples: Sequence[Example],
    recipe: BCRecipe,
    out: Path,
    done: int,
    started: str,
    on_step: Callable[[CloningProgress], None],
) -> None:
    training, began = recipe.training, time.monotonic()
    of_tasks = by_task(examples)
    for step in range(done + 1, training.steps + 1):
        batch = batch_at(of_tasks, recipe, step)
        if len(batch) < accelerator.num_processes:
            raise UserError(
                f"step {step} has {counted(len(batch), 'example')}, too few for "
                f"{accelerator.num_processes} processes"
            )
        tokens = sum(len(example.response) for example in batch)
        batch = batch[accelerator.process_index :: accelerator.num_processes]
        learning_rate = learning_rate_at(training, step)
        if training.restarts_at(step):
            optimizer.state.clear()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate
        loss, hits = _backward(accelerator, model, chat, batch, tokens)
        grad_norm = float(accelerator.clip_grad_norm_(model.parameters(), training.max_grad_norm))
        loss, hits = accelerator.reduce(
            torch.tensor([loss, hits], device=accelerator.device), "sum"
        ).tolist()
        for name, value in (("loss", loss), ("gradient's norm", grad_norm)):
            if not math.isfinite(value):
                raise UserError(
                    f"the {name} is {value} at step {step}: lower training.learning_rate"
                )
        optimizer.step()
        optimizer.zero_grad()
        progress = CloningProgress(
            step=step,
            loss=loss,
            token_accuracy=hits,
            grad_norm=grad_norm,
            learning_rate=learning_rate,
            seconds=round(time.monotonic() - began, 2),
        )
        accelerator.log(asdict(progress), step=step)
        if accelerator.is_main_process:
            with (out / LOG).open("a", encoding="utf-8") as log:
                log.write(json.dumps(asdict(progress)) + "\n")
        on_step(progress)
        if step in training.averaged_steps and accelerator.is_main_process:
            bare = accelerator.unwrap_model(model)
            (out / _ENDS).mkdir(exist_ok=True)
            save_file(_weights(bare), out / _ENDS / f"{step}.safetensors")
        if step % training.checkpoint_every == 0 or step == training.steps:
            _save_checkpoint(accelerator, out, step, started)


def _backward(
    accelerator: Accelerator,
    model: "PreTrainedModel",
    chat: Chat,
    batch: list[Example],
    tokens: int,
) -> tuple[float, float]:
    """Add the gradient of a batch's mean loss, a few examples at a time.

    Args:
        accelerator: Accelerator whose processes share the batch.
        model: The model to train.
        chat: Its chat format.
        batch: This process's examples.
        tokens: Response tokens of all processes' examples.

    Returns:
        This process's parts of the loss and of the token accuracy: their sums over processes are
        the batch's values.
    """
    loss, hits = 0.0, 0.0
    parts = deal(model, batch)
    for number, part in enumerate(parts, 1):
        # Processes may have different numbers of passes, so gradients are only exchanged in the
        # last.
        alone = accelerator.no_sync(model) if number < len(parts) else nullcontext()
        with alone:
            logits, targets = predict(model, chat, part, accelerator.device)
            share = cross_entropy(logits, targets, reduction="sum") / tokens
            # Gradients are averaged over processes.
            accelerator.backward(share * accelerator.num_processes)
        loss += share.item()
        hits += (logits.argmax(-1) == targets).sum().item() / tokens
    return loss, hits


def learning_rate_at(training: Training, step: int) -> float:
    """Learning rate of a step (from 1): linear warm-up, then a cosine after every restart."""
    if step <= training.warmup_steps:
        return training.learning_rate * step / training.warmup_steps
    start, steps, peak, final = training.schedule_at(step)
    begin = max(start, training.warmup_steps)
    rest = max(1, start + steps - begin)
    cosine = 0.5 * (1 + math.cos(math.pi * (step - begin) / rest))
    return final + (peak - final) * cosine


def _fingerprint(recipe: BCRecipe, demonstrations: list[Demonstration]) -> str:
    """Hash of everything that must match to resume from a checkpoint."""
    return sha256_text(recipe.model_dump_json() + data_sha256(demonstrations))


def _save_checkpoint(accelerator: Accelerator, out: Path, step: int, started: str) -> None:
    """Replace the checkpoint; a crash leaves either the old one or the new one."""
    fresh = out / f"{_CHECKPOINT}.new"
    if accelerator.is_main_process:
        shutil.rmtree(fresh, ignore_errors=True)
    accelerator.wait_for_everyone()
    accelerator.save_state(str(fresh))
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        # This file marks the rest as complete, so write it once the rest is on the disk.
        sync_tree(fresh)
        write_atomically(fresh / "step", f"{step} {started}".encode())
        replace_folder(fresh, out / _CHECKPOINT)
    accelerator.wait_for_everyone()


def _resume(accelerator: Accelerator, out: Path, started: str) -> int:
    """Load the folder's checkpoint, if any, and truncate the log to it; return its step.

    Raises:
        UserError: The checkpoint belongs to another recipe or other demonstrations.
    """
    kept, fresh = out / _CHECKPOINT, out / f"{_CHECKPOINT}.new"
    if accelerator.is_main_process:
        if not kept.exists() and (fresh / "step").exists():
            fresh.rename(kept)
        if not (kept / "step").exists():
            (out / LOG).unlink(missing_ok=True)
    accelerator.wait_for_everyone()
    if not (kept / "step").exists():
        return 0
    step_text, _, made_from = (kept / "step").read_text().partition(" ")
    if made_from != started:
        raise UserError(
            f"{out} has a checkpoint of another recipe or of other demonstrations; choose another "
            "--out"
        )
    accelerator.load_state(str(kept))
    step = int(step_text)
    if accelerator.is_main_process:
        lines = (out / LOG).read_text("utf-8").splitlines(keepends=True)
        write_atomically(out / LOG, "".join(lines[:step]).encode())
    return step


def _weights(model: "PreTrainedModel") -> dict[str, torch.Tensor]:
    """Copy every parameter once; tied ones have their first name."""
    return {name: value.detach().cpu().clone() for name, value in model.named_parameters()}


def _average(model: "PreTrainedModel", out: Path, steps: tuple[int, ...]) -> None:
    """Set a model's weights to the mean of those saved after the given steps."""
    if not steps:
        return
    kept = [load_file(out / _ENDS / f"{step}.safetensors") for step in steps]
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.copy_(torch.stack([weights[name] for weights in kept]).mean(0))


def remove_checkpoint(out: Path) -> None:
    """Delete the checkpoint of a finished model."""
    for name in (_CHECKPOINT, f"{_CHECKPOINT}.new", f"{_CHECKPOINT}.old"):
        shutil.rmtree(out / name, ignore_errors=True)
    shutil.rmtree(out / _ENDS, ignore_errors=True)
