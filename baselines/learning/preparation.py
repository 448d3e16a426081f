"""Loads the policy for training, with optimizer and critic, and prepares it for all processes."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from accelerate import Accelerator

from baselines.algorithms.advantage.base import WithCritic
from baselines.algorithms.part import OUT_OF_MEMORY
from baselines.config.run import TrainingRun
from baselines.config.schema import Optimization, TrainConfig
from baselines.learning.adamw import make_optimizer
from baselines.learning.critic import Critic
from baselines.learning.dropout import without_dropout
from baselines.learning.head import DEFAULT_CHUNK, use_chunked_head
from baselines.learning.images import freeze_vision
from baselines.learning.lora import add_updates, freeze
from baselines.learning.optimizer_steps import Updater
from baselines.learning.sharding import is_sharded, narrow_frozen
from baselines.rollouts.rows import longest_row
from benchmark.engines.core.base import Engine, EngineDown
from benchmark.engines.transformers.engine import load_model
from benchmark.engines.transformers.tree_attention import use_tree_attention
from tasks.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

log = logging.getLogger(__name__)


@contextmanager
def memory_advice(optimization: Optimization) -> Iterator[None]:
    """Turn running out of memory into an error that says what to do.

    Raises:
        UserError: Memory ran out.
    """
    try:
        yield
    except (torch.OutOfMemoryError, RuntimeError, EngineDown) as error:
        said = any(text in str(error) for text in OUT_OF_MEMORY)
        if not isinstance(error, torch.OutOfMemoryError) and not said:
            raise
        raise UserError(
            "out of memory: lower optimization.micro_batch_tokens (now "
            f"{optimization.micro_batch_tokens}) or vLLM's share (--gpu-memory-utilization), set "
            "optimization.gradient_checkpointing=true, or let vLLM in this process sleep while the "
            "policy learns (--sleep): no result depends on these, and the same command resumes. As "
            "a new run: more GPUs (--gpus N, sharded), LoRA (--set optimization.lora.rank=32), or "
            "8-bit moments (--set optimization.optimizer=adamw_8bit)"
        ) from error


def load_init(
    run: TrainingRun, accelerator: Accelerator, updates: bool = False
) -> "PreTrainedModel":
    """Load the init in float32, on this process's device unless it will be sharded.

    Args:
        run: The training run, with its init.
        accelerator: Processes and devices.
        updates: Whether to add LoRA updates, if the run trains them.
    """
    assert run.init.path is not None
    optimization, lora = run.config.optimization, run.config.optimization.lora
    model = load_model(run.init.path, "float32", "cpu")
    if updates and lora is not None:
        add_updates(model, lora, run.seed, run.init.identity.name)
        if accelerator.mixed_precision == "bf16":
            narrow_frozen(model, is_sharded(accelerator))
    device = accelerator.device
    placed: PreTrainedModel = model if is_sharded(accelerator) else model.to(device)
    if device.type == "cpu" and optimization.mixed_precision == "no":
        use_tree_attention(placed)
    chunk = optimization.head_chunk
    if chunk is None and device.type != "cpu":
        chunk = DEFAULT_CHUNK
    if chunk is not None and not use_chunked_head(placed, chunk):
        log.warning(
            "%s: its last layer cannot work in chunks; logits of whole micro-batches are kept",
            type(placed).__name__,
        )
    return placed


def make_updater(run: TrainingRun, accelerator: Accelerator) -> Updater:
    """Prepare the policy and its optimizer for all processes."""
    optimization = run.config.optimization
    model = without_dropout(load_init(run, accelerator, updates=True)).train()
    if optimization.freeze_vision:
        freeze_vision(model)
    if optimization.gradient_checkpointing:
        model.gradient_checkpointing_enable()
    optimizer = make_optimizer(
        [weight for weight in model.parameters() if weight.requires_grad],
        accelerator.device,
        optimization.optimizer,
        lr=optimization.learning_rate,
        betas=optimization.betas,
        weight_decay=optimization.weight_decay,
    )
    policy, prepared_optimizer = accelerator.prepare(model, optimizer)
    if optimization.lora is not None:
        freeze(policy)  # FSDP recreates the weights
    if optimization.freeze_vision:
        freeze_vision(policy)
    critic = None
    chosen = run.config.advantage
    if isinstance(chosen, WithCritic):
        assert run.init.path is not None
        critic = Critic(
            accelerator,
            run.init.path,
            chosen.critic_rate(optimization.learning_rate),
            chosen.clip_range,
            optimization,
        )
    share_prefix = not is_sharded(accelerator) and not optimization.gradient_checkpointing
    return Updater(
        accelerator,
        policy,
        prepared_optimizer,
        run.config,
        critic,
        share_prefix,
        longest_row(run.config, run.tasks),
        run.init.path,
    )


def is_exact(engine: Engine, accelerator: Accelerator, config: TrainConfig) -> bool:
    """Whether an engine computes log-probabilities as the trainer does.

    That is: in float32, by the same library, on the same kind of device, with the very weights.
    """
    facts = engine.describe()
    return (
        facts.get("kind") == "transformers"
        and facts.get("dtype") == "float32"
        and facts.get("device") == accelerator.device.type
        and config.optimization.mixed_precision == "no"
        and accelerator.num_processes == 1
    )
