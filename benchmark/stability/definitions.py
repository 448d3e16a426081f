"""Definitions of all stability metrics: the one table used by reports and the leaderboard.

The functions that compute them give the full formulas. Success rates are shares in [0, 1].
"Smoothed" means averaged over the last 3 evaluations. `D_t` is how far evaluation t is below the
best one so far, `d_t` the change per update between evaluations; for k3, see
`benchmark.logs.metrics`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

Scope = Literal["run", "event", "recipe", "comparison"]
Better = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True)
class Definition:
    """Definition of one number.

    Attributes:
        name: Its display name.
        unit: Its unit; for an event, the unit of the time until it.
        text: Its meaning in one line.
        better: Which values are better; None if neither.
        source: Source of the definition.
        scope: What it describes: a `run`, an `event` in a run, a `recipe` (its seeds), or a
            `comparison` of recipes.
    """

    name: str
    unit: str
    text: str
    better: Better | None
    source: str
    scope: Scope


_OURS: Final = "this project"
_CHAN: Final = "Chan et al. 2020, arXiv:1912.05663, section 3"
_AGARWAL: Final = "Agarwal et al. 2021, arXiv:2108.13264"
_K3: Final = "Schulman, Approximating KL Divergence, 2020"

# fmt: off
DEFINITIONS: Final[Mapping[str, Definition]] = {
    "initial_success": Definition(
        "initial success", "share", "success of the init, at update 0", None, _OURS, "run"),
    "final_success": Definition(
        "final success", "share", "success of the last evaluation", "higher", _OURS, "run"),
    "best_success": Definition(
        "best success", "share", "highest smoothed success", "higher", _OURS, "run"),
    "mean_success": Definition(
        "mean success", "share", "area under the success curve / its length", "higher", _OURS,
        "run"),
    "max_drawdown": Definition(
        "maximum drawdown", "share", "deepest fall below the best so far: max D_t", "lower", _CHAN,
        "run"),
    "retention": Definition(
        "retention", "ratio", "last smoothed success / highest", "higher", _OURS, "run"),
    "area_lost": Definition(
        "area lost", "share", "mean fall below the best so far: mean D_t", "lower",
        f"{_OURS}, after {_CHAN}", "run"),
    "short_term_risk": Definition(
        "short-term risk", "share per update", "mean of the worst 10% of changes d_t, as a loss",
        "lower", _CHAN, "run"),
    "long_term_risk": Definition(
        "long-term risk", "share", "mean of the deepest 10% of falls D_t", "lower", _CHAN, "run"),
    "dispersion_across_time": Definition(
        "dispersion across time", "share per update",
        "interquartile range of 10 changes d_t in a row, mean over the run", "lower", _CHAN, "run"),
    "late_std": Definition(
        "late standard deviation", "share", "spread of success in the last 20% of the updates",
        "lower", "ARLArena's criterion while tuning (its variance)", "run"),
    "kl_init_final": Definition(
        "final KL to the init", "nats", "k3 of policy to init, median of the last 10 updates", None,
        _K3, "run"),
    "kl_init_slope": Definition(
        "KL drift", "nats per 100 updates", "least-squares slope of the k3 of policy to init", None,
        _K3, "run"),
    "kl_old_p95": Definition(
        "off-policy KL, P95", "nats", "k3 of new to old policy, 95th percentile of updates",
        "lower", _K3, "run"),
    "grad_spikes": Definition(
        "gradient spikes", "per 100 updates",
        "gradient norms above median + 6 x 1.4826 x MAD of the previous 50", "lower",
        "Hampel 1974, JASA 69, 383-393", "run"),
    "grad_peak": Definition(
        "gradient peak", "ratio", "largest finite gradient norm / median", "lower", _OURS,
        "run"),
    "grad_nonfinite": Definition(
        "gradients not finite", "count", "updates whose gradient norm is not finite", "lower",
        _OURS, "run"),
    "entropy_kept": Definition(
        "entropy kept", "ratio", "mean entropy of the last 10 updates / that of the first 10",
        None, _OURS, "run"),
    "repeated_max": Definition(
        "degenerate responses", "share",
        "largest share of responses with more than half repeated 4-grams", "lower", _OURS, "run"),
    "mismatch_k3": Definition(
        "mismatch", "nats", "k3 of trainer to engine per token, median of the updates", "lower",
        _K3, "run"),
    "mismatch_p95": Definition(
        "mismatch, P95", "nats", "k3 of trainer to engine per token, 95th percentile of updates",
        "lower", _K3, "run"),
    "collapse": Definition(
        "collapse", "updates", "smoothed success loses half of its gain (if known), or of its best",
        "higher",
        f"{_OURS}, after {_CHAN}", "event"),
    "format_collapse": Definition(
        "format collapse", "updates", "valid responses below half of their best, 3 times in a row",
        "higher", f"{_OURS}, after ARLArena's description", "event"),
    "degenerate_text": Definition(
        "degenerate text", "updates", "most responses repeat themselves, 3 updates in a row",
        "higher", _OURS, "event"),
    "entropy_collapse": Definition(
        "entropy collapse", "updates", "entropy below 0.2 of its mean over the first 10 updates",
        "higher", _OURS, "event"),
    "entropy_explosion": Definition(
        "entropy explosion", "updates", "entropy above 3 times its mean over the first 10 updates",
        "higher", _OURS, "event"),
    "collapse_rate": Definition(
        "collapse rate", "share", "seeds that collapse", "lower", _OURS, "recipe"),
    "halved": Definition(
        "halved", "count", "not collapsed, but ends at half of its best (if 10% or more) or below",
        "lower", _OURS, "recipe"),
    "worst_seed": Definition(
        "worst seed", "share", "lowest final success of all seeds", "higher",
        f"{_CHAN}, where it is called risk across runs", "recipe"),
    "dispersion_across_runs": Definition(
        "dispersion across runs", "share",
        "interquartile range over seeds of smoothed success, mean over the run", "lower", _CHAN,
        "recipe"),
    "reached": Definition(
        "compute to reach a level", "updates, tokens, seconds",
        "until smoothed success is at the level, median over seeds", "lower", _OURS, "recipe"),
    "anytime": Definition(
        "anytime curve", "share", "IQM over seeds of success, along the updates, tokens or seconds",
        "higher", f"{_AGARWAL}, section 4.2", "recipe"),
    "survival": Definition(
        "survival", "share", "seeds not collapsed until an update, by Kaplan and Meier", "higher",
        "Kaplan and Meier 1958, JASA 53, 457-481", "recipe"),
    "iqm": Definition(
        "interquartile mean", "share",
        "mean of the middle half of all seeds of all tasks", "higher", f"{_AGARWAL}, section 4.3",
        "comparison"),
    "probability_of_improvement": Definition(
        "probability of improvement", "share",
        "pairs of seeds that the first recipe wins, ties half, mean over tasks", "higher",
        f"{_AGARWAL}, section 4.3", "comparison"),
    "performance_profile": Definition(
        "performance profile", "share", "seeds of all tasks with a score above a threshold",
        "higher", f"{_AGARWAL}, section 4.2", "comparison"),
}
"""Every number, by the name of its field."""
# fmt: on


@cache
def of_scope(scope: Scope) -> tuple[str, ...]:
    """Names of all numbers with one scope, in the order of the table."""
    return tuple(name for name, what in DEFINITIONS.items() if what.scope == scope)
