"""Whether a run fits on its GPUs, and with which micro-batch size."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from baselines.config.layout import Layout
from baselines.rollouts.rows import longest_row
from baselines.training.memory import Memory, estimate_memory

if TYPE_CHECKING:
    from baselines.config.run import TrainingRun

LEAST: Final = 2_048
"""Smallest micro-batch size chosen automatically, in tokens: smaller ones are slow."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How a run fits into memory.

    Attributes:
        tokens: Micro-batch size in tokens.
        memory: Memory needed at that size.
        layout: The run's layout on devices.
        whole: GiB of the smallest device.
        phase: The phase that lacks memory, or has the least left.
    """

    tokens: int
    memory: Memory
    layout: Layout
    whole: float
    phase: str

    @property
    def peak(self) -> float:
        """GiB that the phase needs."""
        return self.memory.phases[self.phase]

    @property
    def room(self) -> float:
        """GiB available to the phase."""
        return self.layout.room(self.whole, self.phase)

    @property
    def fits(self) -> bool:
        """Whether every phase has enough memory."""
        return self.starts and self.peak <= self.room

    @property
    def starts(self) -> bool:
        """Whether vLLM's share of memory covers its minimum."""
        least, share = self.memory.engine, self.layout.engine_share
        return not share or least <= self.whole * share

    @property
    def lack(self) -> str:
        """What is missing, and what helps, as the end of a sentence."""
        if not self.starts:
            return (
                f"vLLM needs {self.memory.engine:.1f} GiB or more for weights and one row, and "
                f"{self.whole * self.layout.engine_share:.1f} GiB of each device are its share "
                "(computed); what helps: a higher --gpu-memory-utilization, or servers with "
                "several GPUs each (--endpoint)"
            )
        helping = [
            *("more GPUs", "--set optimization.lora.rank=32"),
            "--set optimization.optimizer=adamw_8bit",
            *unmeasured(self.memory),
        ]
        beside = self.layout.share > 0
        awake = beside and not (self.layout.sleeps and self.phase == "learning")
        helping += ["a lower --gpu-memory-utilization"] if awake else []
        helping += ["--sleep"] if awake and not self.layout.sleeps else []
        where = "left beside the engine" if beside else "available"
        return (
            f"{self.phase} needs {self.peak:.1f} GiB of each device, and {self.room:.1f} GiB are "
            f"{where} (computed); what helps: {', '.join(helping)}"
        )


def unmeasured(memory: Memory) -> list[str]:
    """The option that avoids a reference kept only for measuring, if there is one."""
    if not memory.measuring:
        return []
    return [f"--set kl.measured=false (saves {memory.measuring:.1f} GiB)"]


def verdict(run: "TrainingRun", layout: Layout, whole: float | None) -> str:
    """Describe in one line whether a run fits.

    Args:
        run: The run, with its final micro-batch size.
        layout: Its layout on devices.
        whole: GiB of the smallest device; None if there is no device to check.
    """
    beside = f", with {layout.share:.0%} of each for vLLM" if layout.share else ""
    if whole is None:
        memory = memory_of(run, layout)
        least = layout.least(memory.phases)
        if layout.engine_share:
            least = max(least, memory.engine / layout.engine_share)
        need = f"it needs GPUs of at least {least:.1f} GiB{beside}"
        less = "".join(f"; less with {option}" for option in unmeasured(memory))
        return f"{need} (computed; there is no GPU here to compare){less}"
    found = fit_on(run, layout, whole, shrink=False)
    if not found.fits:
        return f"it does not fit: {found.lack}"
    return (
        f"it fits: {found.phase} has the least room left, {found.peak:.1f} of {found.room:.1f} "
        f"GiB{beside} (computed)"
    )


def memory_of(run: "TrainingRun", layout: Layout, tokens: int | None = None) -> Memory:
    """See `estimate_memory`; with micro-batches of another size."""
    from transformers import AutoConfig

    assert run.init.path is not None
    model = AutoConfig.from_pretrained(
        run.init.path, local_files_only=True, trust_remote_code=False
    )
    config = run.config
    if tokens is not None:
        own = config.optimization.model_copy(update={"micro_batch_tokens": tokens})
        config = config.model_copy(update={"optimization": own})
    longest = longest_row(config, run.tasks)
    sent = 2 if run.weights_dtype == "bfloat16" else 4
    return estimate_memory(model, config, layout, longest, sent, run.weights_on_gpu)


def fit_on(run: "TrainingRun", layout: Layout, whole: float, shrink: bool = True) -> Fit:
    """Fit a run on devices, with the configured micro-batches or halves of them.

    Args:
        run: The run.
        layout: Its layout on devices.
        whole: GiB of the smallest device.
        shrink: Whether micro-batches may be reduced.

    Returns:
        The first size that fits; if none does, the last one tried.
    """
    tokens = run.config.optimization.micro_batch_tokens
    while True:
        found = _at(run, layout, whole, tokens)
        # Only learning uses micro-batches.
        stuck = found.phase != "learning" or tokens < 2 * LEAST
        if found.fits or stuck or not shrink or not found.starts:
            return found
        tokens //= 2


def _at(run: "TrainingRun", layout: Layout, whole: float, tokens: int) -> Fit:
    memory = memory_of(run, layout, tokens)
    # Report phases first that smaller micro-batches cannot help.
    order = sorted(memory.phases, key=lambda phase: phase == "learning")
    left = {phase: layout.room(whole, phase) - memory.phases[phase] for phase in order}
    lacking = [phase for phase in order if left[phase] < 0]
    phase = lacking[0] if lacking else min(order, key=lambda one: left[one])
    return Fit(tokens, memory, layout, whole, phase)
