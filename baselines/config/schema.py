"""The schema of a training run: one choice in each of the four dimensions, and a scale.

A recipe (`recipes/*.yaml`) names the choices, a scale (`scales/*.yaml`) the sizes; `recipes.py`
joins them. Every field has one meaning, and a contradiction is refused with its reason.
"""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Decay = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(gt=0)]

Over = Literal["trajectories", "rows"]
"""What group statistics count: one sample a trajectory, or every turn (long episodes then weigh
more, as in ARLArena's released code)."""


class Part(BaseModel):
    """A part of the configuration: nothing unknown, nothing changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class _Advantage(Part):
    task_normalized: bool = False
    """Token-level advantages of each task are standardized in the end (AgentRL, Eq. 1)."""


class _Relative(_Advantage):
    """Statistics of groups; `baselines.algorithms.advantages.group_relative` has the formulas.

    Attributes:
        over: What they count.
        variance: Of trajectories: `total`, or `between` their means, as in the released code, which
            gives huge advantages where the means are nearly equal and single turns are not.
        single: What a group of one sample gets: nothing, or its score, as in the released code.
    """

    over: Over = "trajectories"
    variance: Literal["total", "between"] = "total"
    single: Literal["zero", "raw"] = "zero"


class GRPO(_Relative):
    """Relative to the group: minus its mean, over its standard deviation."""

    name: Literal["grpo"]
    divide_by_std: bool = True


class GiGPO(_Relative):
    """GRPO of episodes, plus the same of turns that begin at the same observation."""

    name: Literal["gigpo"]
    gamma: Share = 0.95
    step_weight: NotNegative = 1.0
    step_norm: Literal["mean", "mean_std"] = "mean_std"
    similarity: Share | None = None


class EMPG(_Relative):
    """GRPO weighted by the entropy of turns, plus a bonus for what leads to a clear turn."""

    name: Literal["empg"]
    k: NotNegative = 1.0
    k_future: NotNegative = 1.0
    zeta: NotNegative = 0.05


class RLOO(_Advantage):
    """Minus the mean of the group's other episodes."""

    name: Literal["rloo"]


class ReinforcePP(_Advantage):
    """Discounted token returns, standardized over the whole batch; needs no groups."""

    name: Literal["reinforce_pp"]
    gamma: Share = 1.0


class GAE(_Advantage):
    """Generalized advantage estimation with a critic (PPO)."""

    name: Literal["gae"]
    gamma: Share = 1.0
    lam: Share = 1.0
    clip_range: Positive = 0.5
    learning_rate: Positive = 1e-5


class SequenceMask(Part):
    """Drop rows with a negative advantage that have become improbable.

    Attributes:
        delta: Mean log-ratio old over new beyond which a row is dropped.
        denominator: `kept`: dropped rows leave the aggregation's denominators, too, as in the
            released code; `all`: they stay in, as the paper's formula has it.
    """

    delta: NotNegative = 3e-3
    denominator: Literal["kept", "all"] = "kept"


class _Clipping(Part):
    sequence_mask: SequenceMask | None = None


class PPOClip(_Clipping):
    """Token ratios, the pessimistic one of clipped and not clipped, with a second limit."""

    name: Literal["ppo"]
    clip_low: NotNegative = 0.2
    clip_high: NotNegative = 0.2
    dual_clip: Annotated[float, Field(gt=1, allow_inf_nan=False)] | None = 3.0


class GSPO(_Clipping):
    """One ratio for a row: the geometric mean of its tokens' ratios."""

    name: Literal["gspo"]
    clip_low: NotNegative = 3e-3
    clip_high: NotNegative = 4e-3


class CISPO(_Clipping):
    """The clipped ratio is a weight only: every token keeps its gradient."""

    name: Literal["cispo"]
    clip_low: NotNegative = 1.0
    clip_high: NotNegative = 0.2


class SAPO(_Clipping):
    """A smooth gate in the place of a limit."""

    name: Literal["sapo"]
    tau_positive: Positive = 1.0
    tau_negative: Positive = 1.05


class Dynamic(Part):
    """DAPO's dynamic sampling: draw again until enough groups say something.

    Attributes:
        criterion: A group says something if its returns differ, or if some but not all of its
            episodes succeed (the paper's formula).
        tries: Batches that are drawn at most.
        cold_start: Updates before it begins.
        fill: What takes missing places after the last try: uniform groups of it, or nothing.
    """

    criterion: Literal["returns", "success"] = "returns"
    tries: Count = 3
    cold_start: Annotated[int, Field(ge=0)] = 0
    fill: Literal["uniform", "smaller"] = "uniform"


class CrossPolicy(Part):
    """AgentRL's cross-policy sampling: some turns of an episode are drawn from an older policy.

    Attributes:
        probability: Share of turns.
        refresh_every: Updates after which the older policy becomes the current one.
    """

    probability: Share = 0.25
    refresh_every: Count = 5


class Sampling(Part):
    """Which episodes an update learns from."""

    dynamic: Dynamic | None = None
    cross_policy: CrossPolicy | None = None


class KL(Part):
    """Distance to the init.

    Attributes:
        coef: 0 to log it only.
        estimator: Per-token estimate (Schulman): k1, k2 or k3.
        place: A term of the loss, or taken from the token rewards before advantages.
    """

    coef: NotNegative = 0.0
    estimator: Literal["k1", "k2", "k3"] = "k3"
    place: Literal["loss", "reward"] = "loss"


class Rollout(Part):
    """How episodes are drawn.

    Attributes:
        groups: Entries of the training stream per update, over all processes and tasks.
        group_size: Episodes of each.
        max_tokens: Longest response.
        temperature: Of the draws. Nucleus and top-k are off in training: the engine's
            log-probabilities would be those of another distribution than the trainer's.
        max_turns: Turn limit; None for the task's.
        concurrency: Episodes in flight; None for all at once.
        max_staleness: Asynchronous rollouts: episodes are played while the policy is updated, and
            no row is older than this many updates. None is synchronous: always 0.
    """

    groups: Count = 16
    group_size: Count = 8
    max_tokens: Count = 512
    temperature: Positive = 1.0
    max_turns: Count | None = None
    concurrency: Count | None = None
    max_staleness: Annotated[int, Field(ge=0)] | None = None


class Optimization(Part):
    """How an update is made.

    Attributes:
        updates: Rollouts that are learned from.
        mini_batch_rows: Rows of an optimizer step, over all processes; or
        mini_batches: optimizer steps of a pass. Rows are dealt out evenly.
        epochs: Passes over a rollout.
        micro_batch_tokens: Tokens of one forward pass, padding included; the first thing to lower
            when memory runs out. No result depends on it.
        learning_rate: Of AdamW, after the warm-up.
        warmup_updates: Updates of linear warm-up.
        schedule: Of the learning rate after that.
        weight_decay: Of AdamW.
        betas: Of AdamW.
        max_grad_norm: Global norm that gradients are clipped to.
        gradient_checkpointing: Recompute activations: less memory, a third more time.
        mixed_precision: Of forward passes.
        max_skipped: Optimizer steps in a row that may be skipped because a loss or a gradient is
            not finite, before training stops.
    """

    updates: Count = 200
    mini_batch_rows: Count | None = None
    mini_batches: Count | None = None
    epochs: Count = 1
    micro_batch_tokens: Count = 16_384
    learning_rate: NotNegative = 1e-6
    warmup_updates: Annotated[int, Field(ge=0)] = 0
    schedule: Literal["constant", "linear"] = "constant"
    weight_decay: NotNegative = 0.01
    betas: tuple[Decay, Decay] = (0.9, 0.999)
    max_grad_norm: Positive = 1.0
    gradient_checkpointing: bool = False
    mixed_precision: Literal["no", "bf16"] = "no"
    max_skipped: Count = 10

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if self.mini_batch_rows is not None and self.mini_batches is not None:
            raise ValueError("give mini_batch_rows or mini_batches, not both")
        return self


class Validation(Part):
    """When and how the held-out panel is played: always all of it.

    Attributes:
        panel: Name; None for the task's default.
        every: Updates between two validations; there is one before the first and one at the end.
            None for none at all: such a log cannot be judged.
        max_tokens: Longest response; None for the panel's standard. A value of your own makes
            another protocol, with another fingerprint.
        temperature: Likewise; the panel's standard is greedy for most.
        top_p: Likewise.
        top_k: Likewise.
    """

    panel: str | None = None
    every: Count | None = 5
    max_tokens: Count | None = None
    temperature: NotNegative | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None


class TrainConfig(Part):
    """One training run, but for task, init, engine and seed.

    Attributes:
        advantage: First dimension.
        clipping: Second dimension: importance sampling and its limits.
        aggregation: Third dimension: how token losses become one.
        sampling: Fourth dimension.
        kl: Distance to the init.
        entropy_coef: Bonus on the mean token entropy.
        format_penalty: Cost of an invalid turn; None for the task's.
        penalty_for: Which turns cost it: all that are not valid, as in the released code (the
            format is broken or the world does not admit the action), or those that break the
            format alone.
        penalty_on: A turn's penalty falls on its own row, or all of an episode's on every row.
        penalty_in: Penalties are part of the scores that the advantage compares, as in the released
            code, or are subtracted from the finished advantages. Where a group's rewards are equal,
            normalized scores make penalties as large as any success.
        unit: What a row is; None for the task's own.
        tis_cap: Truncated importance sampling against the engine's log-probabilities: the
            ratio trainer over engine weighs every token, at most this; None is off.
        rollout: How episodes are drawn.
        optimization: How an update is made.
        validation: When and how the panel is played.
        checkpoint_every: Updates between two checkpoints.
    """

    advantage: Annotated[
        GRPO | GiGPO | EMPG | RLOO | ReinforcePP | GAE, Field(discriminator="name")
    ]
    clipping: Annotated[PPOClip | GSPO | CISPO | SAPO, Field(discriminator="name")]
    aggregation: Literal[
        "token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"
    ]
    sampling: Sampling = Sampling()
    kl: KL = KL()
    entropy_coef: Finite = 0.0
    format_penalty: NotNegative | None = None
    penalty_for: Literal["invalid", "format"] = "invalid"
    penalty_on: Literal["turn", "episode"] = "turn"
    penalty_in: Literal["scores", "advantages"] = "scores"
    unit: Literal["turn", "trajectory"] | None = None
    tis_cap: Positive | None = None
    rollout: Rollout = Rollout()
    optimization: Optimization = Optimization()
    validation: Validation = Validation()
    checkpoint_every: Count = 10

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        alone = self.rollout.group_size == 1
        if alone and self.advantage.name in ("grpo", "gigpo", "empg", "rloo"):
            raise ValueError(
                f"{self.advantage.name} compares the episodes of a group, and groups of one "
                "(rollout.group_size=1) have nothing to compare: use reinforce_pp or gae"
            )
        if alone and self.sampling.dynamic is not None:
            raise ValueError("dynamic sampling would drop every group of one episode")
        if self.tis_cap is not None and self.rollout.temperature != 1:
            raise ValueError(
                "engines give log-probabilities at temperature 1, so that tis_cap can only "
                "weigh tokens drawn at it: set rollout.temperature=1, or leave tis_cap out"
            )
        token_level = ("reinforce_pp", "gae")
        if self.kl.place == "reward" and self.advantage.name not in token_level:
            raise ValueError(
                f"kl.place=reward needs advantages of tokens ({' or '.join(token_level)}); "
                f"{self.advantage.name} has one for a row: use kl.place=loss"
            )
        return self

    @property
    def needs_reference(self) -> bool:
        """Whether the distance to the init moves the update."""
        return self.kl.coef > 0
