"""Meanings of other trainers' metric names: one table per source.

A name is in a table only if it means exactly the same as ours, in the same unit: no number is
converted, and merely similar numbers stay unknown (`unmapped_reason` gives the difference). Some
names mean the same only under settings that a log does not contain; the table includes them if
these settings are the trainer's defaults, with the condition as text that every report repeats.

Sources, read in 2026: TRL 1.16 `trl/trainer/grpo_trainer.py` (`_metrics`, `log`) and transformers
5.16 `trainer.py`, `integrations/integration_utils.py` (`rewrite_logs`); verl
`verl/trainer/ppo/metric_utils.py`, `ray_trainer.py`, `mismatch_helper.py`, `rollout_corr_helper.py`
and `verl/workers/actor/dp_actor.py` (volcengine/verl); verl-agent (langfengQ/verl-agent) and
ARLArena (WillDreamer/ARL-Arena), `recipe/world_agent/ppo/metric_utils.py`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from benchmark.logs.metrics import METRICS, VALIDATION_METRICS
from tasks.errors import UserError, suggestion
from tasks.texts import ELLIPSIS

Source = Literal["trl", "verl", "wandb", "tensorboard"]

SECONDS: Final = "seconds"
"""Target name for compute since the beginning, which is not a curve of `METRICS`."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """Meaning of a foreign name.

    Attributes:
        name: Our name, from `METRICS` or `VALIDATION_METRICS`, or `SECONDS`.
        provided: Condition for this meaning, in the trainer's own terms; empty if it always holds.
        panel: The validation panel, if the foreign name contains it.
    """

    name: str
    provided: str = ""
    panel: str = ""


_TOKENWISE = "loss_agg_mode is token-mean, the default"
_ONLY_DRAWN = "responses hold no tool output"

TRL: Final[Mapping[str, Meaning]] = {
    "loss": Meaning("policy/loss"),
    "grad_norm": Meaning("policy/grad_norm"),
    "entropy": Meaning("policy/entropy"),
    "kl": Meaning("kl_init/mean", "sync_ref_model and use_bias_correction_kl are off, the default"),
    "reward": Meaning("rollout/return"),
    "frac_reward_zero_std": Meaning(
        "rollout/uniform_groups", "scale_rewards is group or none, and rewards are summed first"
    ),
    "completions/mean_length": Meaning("response/tokens_mean"),
    "completions/clipped_ratio": Meaning("response/truncated"),
    "sampling/sampling_logp_difference/mean": Meaning("engine/abs_mean"),
}
"""TRL's GRPOTrainer. Its steps are optimizer steps, and it logs means since the previous line
(`logging_steps`), except for the gradient norm, which is the last step's."""

VERL: Final[Mapping[str, Meaning]] = {
    "episode/success_rate": Meaning("rollout/success"),
    "episode/valid_response_format_ratio": Meaning("rollout/format_ok"),
    "episode/reward/mean": Meaning("rollout/reward"),
    "episode/reward_mean": Meaning("rollout/reward"),
    "episode/length/mean": Meaning("rollout/turns"),
    "episode/length_mean": Meaning("rollout/turns"),
    "val/success_rate": Meaning(
        "validation/success",
        "all batches of a validation have the same size and none is skipped",
        panel="val",
    ),
    "actor/grad_norm": Meaning("policy/grad_norm"),
    "actor/entropy": Meaning("policy/entropy", _TOKENWISE),
    "actor/entropy_loss": Meaning("policy/entropy", _TOKENWISE),
    "rollout_corr/k3_kl": Meaning("engine/k3"),
    "mismatch/k3_kl": Meaning("engine/k3"),
    "mismatch/mismatch_k3_kl": Meaning("engine/k3"),
    "rollout_corr/kl": Meaning("engine/k1"),
    "mismatch/kl": Meaning("engine/k1"),
    "mismatch/mismatch_kl": Meaning("engine/k1"),
    "critic/vf_explained_var": Meaning("critic/explained_variance"),
    "response_length/mean": Meaning("response/tokens_mean", _ONLY_DRAWN),
    "response_length/max": Meaning("response/tokens_max", _ONLY_DRAWN),
    "response_length/clip_ratio": Meaning("response/truncated", _ONLY_DRAWN),
    "timing_s/gen": Meaning("seconds/rollout"),
    "timing_s/old_log_prob": Meaning("seconds/old_log_probs"),
    "timing_s/ref": Meaning("seconds/reference"),
    "timing_s/update_actor": Meaning("seconds/update"),
    "timing_s/testing": Meaning("seconds/validation"),
    "timing_s/save_checkpoint": Meaning("seconds/checkpoint"),
    "timing_s/step": Meaning("seconds/total"),
    "perf/time_per_step": Meaning("seconds/total"),
    "perf/max_memory_allocated_gb": Meaning("memory/gpu_gib"),
}
"""verl, verl-agent and ARLArena. If two names mean the same number, the first one counts. The unit
`gb` is 2^30 bytes in verl's code."""

_VERL_ACCURACY = re.compile(r"val-core/(?P<panel>.+)/acc/mean@\d+")

OWN: Final[Mapping[str, Meaning]] = {
    name: Meaning(name) for name in (*METRICS, *VALIDATION_METRICS)
} | {"seconds_total": Meaning(SECONDS)}
"""Our trainer's own names, as `--tracker` sends them to W&B and TensorBoard."""

_TRL_TRACKED: Final[Mapping[str, Meaning]] = {f"train/{name}": m for name, m in TRL.items()}

TABLES: Final[Mapping[Source, tuple[Mapping[str, Meaning], ...]]] = {
    "trl": (TRL,),
    "verl": (VERL,),
    "wandb": (OWN, _TRL_TRACKED, VERL),
    "tensorboard": (OWN, _TRL_TRACKED, VERL),
}
"""Tables by source. W&B and TensorBoard keep names unchanged; TRL's arrive with the prefix
`train/`. No name is in two tables."""

_ESTIMATOR = "another estimator by kl_loss_type, and of the last micro-batch in some versions"
_ROWS = "of rows, which are turns for agents, in the trainer's own unit"
_MAXIMA = "a mean of maxima over the steps since the line before"
_REWARD = "a reward in the trainer's own unit; if it is the success rate, say so with --map"
_WHY_NOT: Final[Mapping[str, str]] = {
    "learning_rate": "the next step's in some versions",
    "num_tokens": "prompt and response tokens together",
    "reward_std": "over the whole batch in some versions, in a group in others",
    "clip_ratio/low_mean": "only tokens with a negative advantage",
    "clip_ratio/high_mean": "only tokens with a positive advantage",
    "completions/max_length": _MAXIMA,
    "sampling/sampling_logp_difference/max": _MAXIMA,
    "step_time": "without the optimizer's step",
    "eval_reward": _REWARD,
    "eval/reward": _REWARD,
    "actor/kl_loss": _ESTIMATOR,
    "actor/ppo_kl": "k1, not k3",
    "actor/pg_loss": "without the terms for KL and entropy",
    "actor/pg_clipfrac": "both limits together",
    "actor/lr": "the next step's in some versions",
    "critic/score/mean": _ROWS,
    "critic/rewards/mean": _ROWS,
    "episode/valid_action_ratio": "the meaning of valid depends on the environment",
    "perf/total_num_tokens": "prompt and response tokens together",
    "perf/cpu_memory_used_gb": "of the whole machine, now",
    "training/rollout_probs_diff_mean": "gaps of probabilities, not of their logarithms",
    "training/rollout_probs_diff_max": "gaps of probabilities, not of their logarithms",
}
_SUCCESS: Final = re.compile(
    r"^(eval|val|valid|validation|test)[-_/.].*(success|acc|reward|score|pass|mean@)", re.IGNORECASE
)
"""Fields that may be the validation success."""
_SHOWN: Final = 12
"""Maximum field names listed in a message."""
_VERL_SCORE = re.compile(r"val/(.+/)?test_score(/.+)?|val-core/.+/(reward|score)/mean@\d+")


def meaning_of(source: Source, field: str) -> Meaning | None:
    """The meaning of a field of a log; None if unknown.

    Args:
        source: The program that wrote the log.
        field: The field's own name.
    """
    for table in TABLES[source]:
        if field in table:
            return table[field]
    name, _, panel = field.rpartition("/")
    if OWN in TABLES[source] and name.startswith("validation/") and name in OWN:
        return Meaning(OWN[name].name, panel=panel)  # from a run on several tasks
    if VERL in TABLES[source] and (match := _VERL_ACCURACY.fullmatch(field)):
        return Meaning("validation/success", "acc is 1 or 0", match["panel"])
    return None


def is_of_transformers(field: str) -> bool:
    """Whether transformers' integrations use this name for a number of TRL."""
    return field in _TRL_TRACKED


def priority(source: Source, field: str) -> int:
    """Priority of a name; of two names for one number, the smaller priority counts."""
    names = [name for table in TABLES[source] for name in table]
    return names.index(field) if field in names else len(names)


def unmapped_reason(field: str) -> str | None:
    """Why a field that looks like one of ours is not read as it; None if there is no reason."""
    if _VERL_SCORE.fullmatch(field):
        return _REWARD
    return _WHY_NOT.get(field.removeprefix("train/"))


def success_advice(unknown: Sequence[str]) -> str:
    """What to do about a log without a validation success.

    Args:
        unknown: Its fields without a known meaning.
    """
    judged = [name for name in unknown if _SUCCESS.search(name)]
    perhaps = f", perhaps {listed(judged)}" if judged else ""
    return f"give its field (--map validation/success=FIELD){perhaps}"


def listed(fields: Sequence[str]) -> str:
    """The first field names, for messages."""
    return ", ".join([*fields[:_SHOWN], *([ELLIPSIS] if len(fields) > _SHOWN else [])])


def own_words(options: Sequence[str]) -> dict[str, Meaning]:
    """Parse field meanings given by the user.

    Args:
        options: Of the form `NAME=FIELD`, such as `validation/success=eval/accuracy`; a validation
            name may end with its panel, as in `validation/success@math`.

    Returns:
        Meanings by field.

    Raises:
        UserError: An option has another form, or a name is not one of ours.
    """
    meanings: dict[str, Meaning] = {}
    for option in options:
        ours, _, foreign = option.partition("=")
        name, _, panel = ours.partition("@")
        if not foreign:
            raise UserError(f"--map {option}: use NAME=FIELD, with this project's name first")
        known = (*VALIDATION_METRICS, *METRICS)
        if name not in known or (panel and name in METRICS):
            raise UserError(f"--map {option}: no metric {ours!r}{suggestion(name, known)}")
        if foreign in meanings:
            raise UserError(f"--map {option}: {foreign!r} already has a meaning; give it only one")
        meanings[foreign] = Meaning(name, "--map is right", panel)
    return meanings
