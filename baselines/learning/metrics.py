"""The metrics of an update's log line, from the statistics of its optimizer steps."""

import resource
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from accelerate import Accelerator
from accelerate.utils import gather_object

from baselines.algorithms.kl import LOG_RATIO_LIMIT, kl, masked_statistics
from baselines.learning.optimizer_steps import Tensors
from baselines.learning.tally import UpdateStats
from baselines.rollouts.rows import Row
from benchmark.logs.metrics import metric_of
from tasks.errors import UserError

Metrics = dict[str, float | None]

MOST_AT_FIRST = 1e-2
"""Largest divergence before training, in nats per token, that rounding can explain."""
_ENGINE = (
    "engine/k3",
    "the engine that played differs from the policy",
    "the server serves another model than --init; new weights did not arrive (a tied last "
    "layer, a stale prefix cache); the engine quantizes, or samples with top-p, top-k or "
    "another temperature; its chat template or tokenizer differs",
)
_FIRST = (
    (
        "kl_init/mean",
        "the policy differs from its own init",
        "the reference's weights were not loaded on every process; policy and reference run in "
        "different precision; the checkpoint lacks tensors",
    ),
    _ENGINE,
)
_HOST_UNIT = 2**20
"""`ru_maxrss` is in KiB."""


def update_metrics(tally: UpdateStats) -> Metrics:
    """`policy/`, `ratio/` and `kl_old/` metrics over all optimizer steps of an update."""
    ratios = np.concatenate(tally.log_ratios) if tally.log_ratios else np.zeros(0)
    trained_critic = tally.critic_losses or tally.critic_skipped
    of_critic: Metrics = {"critic/skipped_steps": tally.critic_skipped} if trained_critic else {}
    if not len(ratios):
        return {"policy/optimizer_steps": 0, "policy/skipped_steps": tally.skipped, **of_critic}
    row_ratios = np.abs(np.concatenate(tally.row_ratios))
    weights = np.exp(np.clip(ratios.astype(np.float64), -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT))
    distances = torch.from_numpy(weights - 1 - np.clip(ratios, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT))
    moved = masked_statistics(distances, torch.ones_like(distances))
    low, middle, high = np.quantile(weights, [0.01, 0.5, 0.99])
    return {
        "tokens/trained": len(ratios),
        "policy/loss": _mean(tally.losses),
        "policy/grad_norm": _mean(tally.grad_norms),
        "policy/grad_norm_max": float(np.max(tally.grad_norms)) if tally.grad_norms else None,
        "policy/entropy": float(np.concatenate(tally.entropies).mean(dtype=np.float64)),
        "policy/optimizer_steps": len(tally.losses),
        "policy/skipped_steps": tally.skipped,
        "policy/masked_rows": tally.masked_rows / len(row_ratios),
        "kl_old/mean": moved.mean,
        "kl_old/median": moved.median,
        "kl_old/clipped_mean": moved.clipped_mean,
        "ratio/p01": float(low),
        "ratio/p50": float(middle),
        "ratio/p99": float(high),
        "ratio/max": float(weights.max()),
        "ratio/sequence_p99": float(np.quantile(row_ratios, 0.99)),
        "ratio/clipped_low": tally.low / len(ratios),
        "ratio/clipped_high": tally.high / len(ratios),
        "ratio/ess": _effective_share(weights),
        "critic/loss": _mean(tally.critic_losses) if tally.critic_losses else None,
        **of_critic,
    }


def gathered(tally: UpdateStats, accelerator: Accelerator) -> UpdateStats:
    """Combine the tallies of all processes."""
    if accelerator.num_processes == 1:
        return tally
    parts: list[UpdateStats] = gather_object([tally])
    whole = UpdateStats(
        # Each process has its share of every step's loss, but the norm of the full gradient.
        losses=[sum(step) for step in zip(*(part.losses for part in parts), strict=True)],
        grad_norms=tally.grad_norms,
        skipped=tally.skipped,
        masked_rows=sum(part.masked_rows for part in parts),
        low=sum(part.low for part in parts),
        high=sum(part.high for part in parts),
        critic_losses=[
            sum(step) for step in zip(*(part.critic_losses for part in parts), strict=True)
        ],
        critic_skipped=tally.critic_skipped,
    )
    for part in parts:
        whole.log_ratios += part.log_ratios
        whole.row_ratios += part.row_ratios
        whole.entropies += part.entropies
        whole.first_log_probs |= part.first_log_probs
    return whole


def engine_metrics(rows: Sequence[Row], trainer: Tensors, version: int) -> Metrics:
    """`engine/` metrics: how far the engine's log-probabilities are from the trainer's.

    Only over rows that were sampled from exactly the trainer's weights; `d` is trainer minus
    engine, per token.

    Args:
        rows: All rows.
        trainer: (T,) log-probabilities at temperature 1 per row; None where not computed.
        version: Number of the trainer's weights.
    """
    gaps: list[npt.NDArray[np.float32]] = []
    for row, log_probs in zip(rows, trainer, strict=True):
        if log_probs is not None and row.versions == (version, version):
            drawn = row.response_mask > 0
            gaps.append(log_probs.float().numpy()[drawn] - row.engine_log_probs[drawn])
    if not gaps:
        return {}
    gap = np.clip(np.concatenate(gaps).astype(np.float64), -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    k3 = np.expm1(gap) - gap
    return {
        "engine/k1": float(-gap.mean()),
        "engine/k3": float(k3.mean()),
        "engine/k3_p95": float(np.quantile(k3, 0.95)),
        "engine/abs_mean": float(np.abs(gap).mean()),
        "engine/abs_max": float(np.abs(gap).max()),
        "engine/ess": _effective_share(np.exp(gap)),
    }


def init_metrics(rows: Sequence[Row], trainer: Tensors, reference: Tensors) -> Metrics:
    """`kl_init/` metrics: k3 from the policy to the init, over rows that have both values."""
    distances, counted = [], []
    for row, log_probs, before in zip(rows, trainer, reference, strict=True):
        if log_probs is not None and before is not None:
            distances.append(kl(log_probs, before, "k3", limit=float("inf")))
            counted.append(torch.from_numpy(row.response_mask))
    if not distances:
        return {}
    found = masked_statistics(torch.cat(distances), torch.cat(counted))
    return {
        "kl_init/mean": found.mean,
        "kl_init/median": found.median,
        "kl_init/clipped_mean": found.clipped_mean,
    }


def check_first_update(metrics: Mapping[str, float | None]) -> None:
    """Check that policy, init and engine agreed on the same tokens before the first step.

    Args:
        metrics: Metrics of the first update. Missing ones were not measured.

    Raises:
        UserError: They did not; the message names the known causes.
    """
    for name, what, causes in _FIRST:
        value = metrics.get(name)
        if value is not None and not value <= MOST_AT_FIRST:
            raise UserError(
                f"after the first update {name} is {value:.3g}, above {MOST_AT_FIRST:g}: {what}, "
                f"although nothing had been trained yet. Known causes: {causes}. Fix the cause "
                "before training"
            )


def loggable(metrics: Metrics) -> Metrics:
    """Check metrics and return them, because a custom learner may use any names.

    Raises:
        UserError: The log cannot hold one of them.
    """
    if unknown := [name for name in metrics if metric_of(name) is None]:
        raise UserError(
            f"the learner gives the metric {unknown[0]!r}, which logs do not have: write numbers "
            "of your own to a file of your own"
        )
    return metrics


def engine_gap(number: int, value: float) -> UserError:
    """The error for an engine and a policy that differ after the first update."""
    name, what, causes = _ENGINE
    return UserError(
        f"after update {number} {name} is {value:.3g}, above {MOST_AT_FIRST:g}: {what}, although "
        "the engine reported the same weights: it did not load the latest ones. Known "
        f"causes: {causes}. Importance weights (--set tis_cap=2) correct a gap of precision alone"
    )


def staleness_metrics(rows: Sequence[Row], version: int) -> Metrics:
    """`staleness/` metrics: updates between the weights that sampled a row and those it trains."""
    ages = [version - row.versions[0] for row in rows]
    return {"staleness/mean": _mean(ages), "staleness/max": max(ages, default=None)}


def memory_metrics() -> Metrics:
    """`memory/` metrics: peaks since the process started."""
    gpu = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else None
    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _HOST_UNIT
    return {"memory/gpu_gib": gpu, "memory/host_gib": host}


def explained_variance(values: torch.Tensor, targets: torch.Tensor) -> float | None:
    """1 - Var(targets - values) / Var(targets); None where the targets do not vary."""
    predicted, wanted = values.double(), targets.double()
    spread = float(wanted.var(unbiased=False))
    return 1 - float((wanted - predicted).var(unbiased=False)) / spread if spread else None


def _effective_share(weights: npt.NDArray[np.float64]) -> float:
    return float(weights.sum() ** 2 / (len(weights) * (weights**2).sum()))


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if len(values) else None
