"""The metrics of a training log: name, unit and a one-line description.

The log's checks, plots, stability metrics and documents all read this table. In the texts, the
ratio of a token is its probability under the trained policy divided by that under the old policy,
which is the policy at the start of the update. In a synchronous run that policy sampled the tokens.
In an asynchronous run, or with an additional older policy, some tokens come from earlier policies,
and no ratio shows how far those had moved; `staleness/` shows how old they are. `d` is the ratio's
logarithm, k3 is `exp(d) - d - 1` for the respective `d` (Schulman, "Approximating KL Divergence",
2020), and the effective sample size is `(sum w)^2 / sum w^2` for the ratios w. All k3 estimate the
divergence of another policy from the one that sampled the tokens: KL(old, new) in `kl_old/`,
KL(policy, init) in `kl_init/`, KL(engine, trainer) in `engine/`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

FLOAT32_MAX = 3.4028234663852886e38
"""Larger numbers count as not finite."""


@dataclass(frozen=True, slots=True)
class Metric:
    """Definition of one number of the log.

    Attributes:
        unit: Its unit; shares are at most 1.
        text: Its meaning in one line.
        log_scale: Its order of magnitude matters, so plots may use a logarithmic axis.
        signed: It can be negative.
    """

    unit: str
    text: str
    log_scale: bool = False
    signed: bool = False

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest possible value."""
        low = -FLOAT32_MAX if self.signed else 0.0
        return low, 1.0 if self.unit == "share" else FLOAT32_MAX


# fmt: off
METRICS: Final[Mapping[str, Metric]] = {
    "rollout/success": Metric("share", "training episodes solved"),
    "rollout/score": Metric("score", "task score of an episode, mean", signed=True),
    "rollout/return": Metric("points", "reward minus penalty of an episode, mean", signed=True),
    "rollout/reward": Metric("points", "sum of an episode's rewards, mean", signed=True),
    "rollout/penalty": Metric("points", "sum of an episode's format penalties, mean"),
    "rollout/format_ok": Metric("share", "responses with a valid format"),
    "rollout/action_ok": Metric("share", "responses with a valid action"),
    "rollout/turns": Metric("turns", "turns of an episode, mean"),
    "rollout/episodes": Metric("count", "episodes played, resampled ones included"),
    "rollout/groups": Metric("count", "groups played, resampled ones included"),
    "rollout/uniform_groups": Metric("share", "groups whose returns are all equal"),
    "rollout/group_std": Metric("points", "standard deviation of returns in a group, mean"),
    "rollout/tries": Metric("count", "sampling attempts per update, 1 without resampling"),
    "rollout/errors": Metric("count", "episodes that ended in an error"),
    "rollout/lost_turns": Metric("count", "turns left out of their episode's row"),
    "rollout/masked": Metric("count", "episodes in no loss, for a turn without a valid format"),
    "rollout/repeated": Metric("share", "responses with more than half repeated 4-grams"),
    "response/tokens_mean": Metric("tokens", "length of a response, mean"),
    "response/tokens_max": Metric("tokens", "length of the longest response"),
    "response/truncated": Metric("share", "responses cut at the token limit"),
    "tokens/prompt": Metric("tokens", "prompt tokens of all turns"),
    "tokens/response": Metric("tokens", "response tokens that were sampled"),
    "tokens/trained": Metric("tokens", "tokens in the loss, over all optimizer steps"),
    "policy/loss": Metric("loss", "loss that is minimized, mean over steps", signed=True),
    "policy/grad_norm": Metric("norm", "gradient norm before clipping, mean over steps", True),
    "policy/grad_norm_max": Metric("norm", "gradient norm before clipping, largest", True),
    "policy/entropy": Metric("nats", "entropy of the next token, full softmax, mean"),
    "policy/learning_rate": Metric("learning rate", "of the last optimizer step"),
    "policy/optimizer_steps": Metric("count", "optimizer steps taken"),
    "policy/skipped_steps": Metric("count", "optimizer steps skipped: not finite"),
    "policy/masked_rows": Metric("share", "sequences dropped by the sequence mask"),
    "policy/penalty_share": Metric("share", "advantages due to format penalties"),
    "policy/advantage_std": Metric("advantage", "standard deviation of the advantages"),
    "kl_old/mean": Metric("nats", "k3 of new to old policy, mean", True),
    "kl_old/median": Metric("nats", "k3 of new to old policy, median", True),
    "kl_old/clipped_mean": Metric("nats", "k3 of new to old policy, clipped mean", True),
    "kl_init/mean": Metric("nats", "k3 to the init, before the update, mean", True),
    "kl_init/median": Metric("nats", "k3 to the init, before the update, median", True),
    "kl_init/clipped_mean": Metric("nats", "k3 to the init, before the update, clipped mean", True),
    "ratio/p01": Metric("ratio", "token ratio new/old, 1st percentile", True),
    "ratio/p50": Metric("ratio", "token ratio new/old, median"),
    "ratio/p99": Metric("ratio", "token ratio new/old, 99th percentile", True),
    "ratio/max": Metric("ratio", "token ratio new/old, largest", True),
    "ratio/sequence_p99": Metric(
        "nats", "absolute log of the sequence ratio, 99th percentile", True
    ),
    "ratio/clipped_low": Metric("share", "tokens beyond the lower clipping limit"),
    "ratio/clipped_high": Metric("share", "tokens beyond the upper limit (dual clip aside)"),
    "ratio/ess": Metric("share", "effective sample size by number of tokens"),
    "critic/loss": Metric("loss", "value loss"),
    "critic/skipped_steps": Metric("count", "steps of the critic skipped: not finite"),
    "critic/explained_variance": Metric("share", "explained variance of the returns", signed=True),
    "engine/k1": Metric("nats", "log-prob of engine minus trainer per token, mean", signed=True),
    "engine/k3": Metric("nats", "k3 of trainer to engine per token, mean", True),
    "engine/k3_p95": Metric("nats", "k3 of trainer to engine per token, 95th percentile", True),
    "engine/abs_mean": Metric("nats", "log-prob gap of trainer and engine, mean", True),
    "engine/abs_max": Metric("nats", "log-prob gap of trainer and engine, largest", True),
    "engine/ess": Metric("share", "effective sample size, trainer to engine"),
    "staleness/mean": Metric("updates", "age of the weights that sampled, mean"),
    "staleness/max": Metric("updates", "age of the weights that sampled, largest"),
    "seconds/rollout": Metric("seconds", "playing the episodes"),
    "seconds/old_log_probs": Metric("seconds", "log-probs of the old policy"),
    "seconds/reference": Metric("seconds", "log-probs of the init"),
    "seconds/update": Metric("seconds", "forward, backward and optimizer"),
    "seconds/weights": Metric("seconds", "sending the weights to the engine"),
    "seconds/validation": Metric("seconds", "validation"),
    "seconds/checkpoint": Metric("seconds", "writing the checkpoint"),
    "seconds/total": Metric("seconds", "the whole update"),
    "seconds/engine_idle": Metric("seconds", "the engine had no request"),
    "speed/tflops": Metric("TFLOP/s", "products of optimizer steps, of each process"),
    "speed/mfu": Metric("share", "of the GPU's peak in bfloat16 (MFU)"),
    "weights/gib": Metric("GiB", "weights sent to the engine"),
    "memory/gpu_gib": Metric("GiB", "GPU memory, peak"),
    "memory/host_gib": Metric("GiB", "host memory, peak"),
}
"""Every number of an update line, by name."""

VALIDATION_METRICS: Final[Mapping[str, Metric]] = {
    "validation/success": Metric("share", "validation episodes solved"),
    "validation/score": Metric("score", "task score of a validation episode, mean", signed=True),
    "validation/format_ok": Metric("share", "validation responses with a valid format"),
    "validation/action_ok": Metric("share", "validation responses with a valid action"),
    "validation/turns": Metric("turns", "turns of a validation episode, mean"),
}
"""The numbers of a validation line that form curves; the part after the slash is the field."""
# fmt: on

OF_EACH_TASK: Final = (
    *("rollout/success", "rollout/score", "rollout/return", "rollout/penalty"),
    *("rollout/format_ok", "rollout/action_ok", "rollout/turns"),
    *("rollout/episodes", "rollout/groups", "rollout/uniform_groups"),
)
"""Numbers that a run on several tasks also logs per task: `rollout/success@sokoban`."""


def metric_of(name: str) -> Metric | None:
    """The metric of an update line's number, which may be one task's; None if there is none."""
    whole, of_task, task = name.partition("@")
    if not of_task:
        return METRICS.get(name)
    return METRICS[whole] if whole in OF_EACH_TASK and task else None
