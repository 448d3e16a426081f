"""How much arithmetic an update's optimizer steps make, and what share of a GPU's that is."""

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
"""TFLOP/s of dense products in bfloat16 (NVIDIA's data sheets, without sparsity), by a part of the
device's name; the first that fits counts."""


def step_flops(
    model: "PretrainedConfig",
    parameters: int,
    rows: Sequence[Row],
    epochs: float,
    frozen: bool = False,
    critic: bool = False,
) -> float:
    """Floating-point operations of forward and backward passes, as MFU counts them.

    2 per parameter and token forward and 4 backward, the last layer's of response tokens alone; and
    of attention, with half of the pairs of tokens. What is computed again, or saved by shared
    prefixes, does not count (Chowdhery et al., PaLM, arXiv 2204.02311, appendix B).

    Args:
        model: The policy's configuration.
        parameters: Of the policy, all of them.
        rows: That are learned from.
        epochs: Mean number of passes over each row.
        frozen: LoRA: the weights have no gradients, which is 2 less per parameter and token. What
            its updates add is left out.
        critic: A network of the same size but for the last layer is trained beside it.
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
    """`speed/` numbers.

    Args:
        flops: Of all processes.
        seconds: That they took.
        processes: How many there are.
        device: Name of each one's GPU; None on a CPU.
    """
    if not seconds or not flops:
        return {}
    rate = flops / seconds / processes / 1e12
    peak = next((peak for name, peak in PEAKS.items() if device and name in device), None)
    return {"speed/tflops": rate, "speed/mfu": rate / peak if peak else None}


class ThroughputMeter:
    """Relates the arithmetic of an update to the time that it took.

    Args:
        accelerator: Processes and devices.
        model: The policy, prepared.
        critic: A critic is trained beside it.
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
        """Count rows that were learned from, with their mean number of passes."""
        self._flops += step_flops(
            self._config, self._parameters, rows, epochs, self._frozen, self._critic
        )

    def metrics(self, seconds: float | None) -> Metrics:
        """`speed/` numbers of what was noted since the last time, in so many seconds."""
        flops, self._flops = self._flops, 0.0
        return speed_metrics(flops, seconds, self._processes, self._device)
