"""Floating-point operations of an update's optimizer steps, and their share of a GPU's peak."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import torch
from accelerate import Accelerator

from baselines.learning.lora import has_updates
from baselines.learning.metrics import Metrics
from baselines.rollouts.rows import Row

if TYPE_CHECKING:
    from transformers import PretrainedConfig

PEAKS: Final = {
    "A100": 312.0,
    "H100 PCIe": 756.0,
    "H100": 989.0,
    "H200": 989.0,
    "B200": 2250.0,
    "L40S": 362.0,
}
"""TFLOP/s of dense bfloat16 products (NVIDIA's data sheets, without sparsity), by a part of the
device's name; the first match counts."""


def step_flops(
    model: "PretrainedConfig",
    parameters: int,
    rows: Sequence[Row],
    epochs: float,
    frozen: bool = False,
    critic: bool = False,
) -> float:
    """Floating-point operations of forward and backward passes, as MFU counts them.

    2 per parameter and token forward and 4 backward, for the last layer only over response tokens;
    plus attention, over half of the token pairs. Recomputation, and savings from shared prefixes,
    do not count (Chowdhery et al., PaLM, arXiv 2204.02311, appendix B).

    Args:
        model: The policy's configuration.
        parameters: Number of all parameters of the policy.
        rows: The training rows.
        epochs: Mean number of passes over each row.
        frozen: LoRA: the weights have no gradients, which saves 2 per parameter and token. The
            updates themselves are not counted.
        critic: A critic of the same size, except for the last layer, is trained as well.
    """
    text = model.get_text_config(decoder=True)
    head = text.vocab_size * text.hidden_size
    body = parameters - head * (1 if text.tie_word_embeddings else 2)
    size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    width = text.num_attention_heads * size
    lengths = [row.length for row in rows]
    products = body * sum(lengths) + head * sum(len(row.response_ids) for row in rows)
    pairs = sum(length**2 for length in lengths)
    attention = text.num_hidden_layers * width * pairs
    own = (4 if frozen else 6) * products + 6 * attention
    beside = 6 * (body * sum(lengths) + attention) if critic else 0
    return float(epochs * (own + beside))


def speed_metrics(
    flops: float, seconds: float | None, processes: int, device: str | None
) -> Metrics:
    """`speed/` metrics.

    Args:
        flops: Floating-point operations of all processes.
        seconds: Time that they took.
        processes: Number of processes.
        device: Name of each process's GPU; None on a CPU.
    """
    if not seconds or not flops:
        return {}
    rate = flops / seconds / processes / 1e12
    peak = next((peak for name, peak in PEAKS.items() if device and name in device), None)
    return {"speed/tflops": rate, "speed/mfu": rate / peak if peak else None}


class ThroughputMeter:
    """Measures the floating-point operations of an update per unit of time.

    Args:
        accelerator: Processes and devices.
        model: The policy, prepared.
        critic: Whether a critic is trained as well.
    """

    def __init__(self, accelerator: Accelerator, model: Any, critic: bool = False) -> None:
        self._critic = critic
        self._processes = accelerator.num_processes
        self._config = accelerator.unwrap_model(model).config
        self._frozen = has_updates(model)
        self._parameters = sum(
            weight.numel()
            for weight in model.parameters()
            if not (self._frozen and weight.requires_grad)
        )
        cuda = accelerator.device.type == "cuda"
        self._device = torch.cuda.get_device_name(accelerator.device) if cuda else None
        self._flops = 0.0

    def note(self, rows: Sequence[Row], epochs: float) -> None:
        """Count training rows, with their mean number of passes."""
        self._flops += step_flops(
            self._config, self._parameters, rows, epochs, self._frozen, self._critic
        )

    def metrics(self, seconds: float | None) -> Metrics:
        """`speed/` metrics of the rows noted since the last call, which took `seconds`."""
        flops, self._flops = self._flops, 0.0
        return speed_metrics(flops, seconds, self._processes, self._device)
