"""The schema of a training run: one choice in each of the four dimensions, and a scale.

A recipe (`recipes/*.yaml`) names the choices, a scale (`scales/*.yaml`) the sizes; `layers.py`
merges them. Every field has one meaning, and contradictions are refused with a reason.
"""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, SerializeAsAny, model_validator

from baselines.algorithms.advantage.base import Advantage, WithCritic
from baselines.algorithms.aggregation import Aggregation
from baselines.algorithms.clipping.base import Clipping
from baselines.algorithms.custom_learner import CustomLearner
from baselines.algorithms.part import (
    Count,
    CountOrZero,
    Decay,
    Finite,
    NotNegative,
    Part,
    Positive,
    by_name,
)
from baselines.algorithms.sampling import EpisodeSampling
from tasks.panels import LEAST_TEMPERATURE, is_temperature

# Far above what anybody trains with: larger numbers are slips, with which even an estimate of the
# run would not end.
Groups = Annotated[int, Field(gt=0, le=65_536)]
Tokens = Annotated[int, Field(gt=0, le=2**18)]
Turns = Annotated[int, Field(gt=0, le=10_000)]
TemplateVariable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


def _greedy_or_warm(temperature: float) -> float:
    if not is_temperature(temperature):
        raise ValueError(f"a temperature is 0, which is greedy, or at least {LEAST_TEMPERATURE}")
    return temperature


class KL(Part):
    """KL divergence from the init.

    Attributes:
        coef: Coefficient; 0 only logs it.
        estimator: Per-token estimator (Schulman): k1, k2 or k3.
        place: Added to the loss, or subtracted from the token rewards before advantages.
        measured: If coef is 0, still log it for some rows, which needs another model in memory.
    """

    coef: NotNegative = 0.0
    estimator: Literal["k1", "k2", "k3"] = "k3"
    place: Literal["loss", "reward"] = "loss"
    # Left out unless turned off: tracks and checkpoints are older than this setting.
    measured: Annotated[bool, Field(exclude_if=bool)] = True


class Rollout(Part):
    """How episodes are played.

    Attributes:
        groups: Entries of the training stream per update, over all processes and tasks.
        mixture: Groups of each task per update, which add up to `groups`; None cycles through
            the tasks.
        group_size: Episodes per group.
        max_tokens: Maximum response length in tokens.
        temperature: Sampling temperature. Nucleus and top-k are off in training: the engine's
            log-probabilities would be of a different distribution than the trainer's.
        max_turns: Turn limit, for all tasks or by task; None for the task's own. Tasks that are not
            named use their own.
        concurrency: Episodes in flight, split equally over the batches that can be in flight; None
            for all at once.
        max_staleness: Asynchronous rollouts: episodes are played while the policy is updated, and
            no row is older than this many updates. None is synchronous: staleness is always 0.
    """

    groups: Groups = 16
    # Not there unless it is set: tracks and checkpoints are older than it.
    mixture: Annotated[
        dict[str, Groups] | None, Field(min_length=1, exclude_if=lambda value: value is None)
    ] = None
    group_size: Annotated[int, Field(gt=0, le=4_096)] = 8
    max_tokens: Tokens = 512
    temperature: Annotated[float, Field(ge=LEAST_TEMPERATURE, allow_inf_nan=False)] = 1.0
    max_turns: Turns | Annotated[dict[str, Turns], Field(min_length=1)] | None = None
    concurrency: Annotated[int, Field(gt=0, le=65_536)] | None = None
    max_staleness: CountOrZero | None = None


class LoRA(Part):
    """Low-rank updates of all linear layers but the last (Hu et al., arXiv 2106.09685).

    There is no dropout: with it, the policy would differ from the one that sampled the data.

    Attributes:
        rank: Rank of an update.
        alpha: An update is scaled by `alpha / rank`.
    """

    rank: Annotated[int, Field(ge=1, le=512)] = 32
    alpha: Count = 32


class Optimization(Part):
    """How an update is made.

    Attributes:
        updates: Number of updates, one per rollout.
        mini_batch_rows: Rows per optimizer step, over all processes. Alternative to `mini_batches`.
        mini_batches: Optimizer steps per epoch, with rows dealt out evenly.
        epochs: Passes over a rollout.
        micro_batch_tokens: Tokens per forward pass, padding included; lower this first when memory
            runs out. No result depends on it.
        learning_rate: AdamW's learning rate after the warm-up.
        warmup_updates: Updates of linear warm-up.
        schedule: Learning rate schedule after the warm-up.
        weight_decay: AdamW's weight decay.
        betas: AdamW's betas.
        max_grad_norm: Global norm that gradients are clipped to.
        gradient_checkpointing: Recompute activations: less memory, a third more time.
        mixed_precision: Precision of forward passes.
        head_chunk: Tokens per chunk of logits; None for 2,048 on accelerators and for a whole
            micro-batch on CPUs. Results differ only by rounding.
        skip_empty: Skip steps whose advantages are all 0 if neither KL nor entropy is part of the
            loss: only old moments and rounding would drive them.
        optimizer: AdamW, or AdamW with 8-bit moments, which needs the library torchao.
        lora: Train low-rank updates instead of all weights; needs the library peft. Learning
            rates are then about ten times as high.
        freeze_vision: Freeze the vision part of a vision-language model. A small one trained at the
            common learning rate can become useless within one update.
        max_skipped: Maximum consecutive optimizer steps that are skipped because a loss or gradient
            is not finite, before training stops.
    """

    updates: Count = 200
    mini_batch_rows: Count | None = None
    mini_batches: Count | None = None
    epochs: Annotated[int, Field(gt=0, le=100)] = 1
    micro_batch_tokens: Annotated[int, Field(gt=0, le=2**20)] = 16_384
    learning_rate: NotNegative = 1e-6
    warmup_updates: CountOrZero = 0
    schedule: Literal["constant", "linear"] = "constant"
    weight_decay: NotNegative = 0.01
    betas: tuple[Decay, Decay] = (0.9, 0.999)
    max_grad_norm: Positive = 1.0
    gradient_checkpointing: bool = False
    mixed_precision: Literal["no", "bf16"] = "no"
    # These are left out unless set: tracks and checkpoints are older than these settings.
    head_chunk: Annotated[Count | None, Field(exclude_if=lambda value: value is None)] = None
    skip_empty: Annotated[bool, Field(exclude_if=lambda value: not value)] = False
    optimizer: Annotated[
        Literal["adamw", "adamw_8bit"], Field(exclude_if=lambda value: value == "adamw")
    ] = "adamw"
    lora: Annotated[LoRA | None, Field(exclude_if=lambda value: value is None)] = None
    freeze_vision: Annotated[bool, Field(exclude_if=lambda value: not value)] = False
    max_skipped: Count = 10

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if self.mini_batch_rows is not None and self.mini_batches is not None:
            raise ValueError("give mini_batch_rows or mini_batches, not both")
        return self


class ValidationSettings(Part):
    """When and how the held-out panel is played, always all of it.

    Attributes:
        panel: Name; None for the task's default.
        every: Updates between two validations, with one before the first update and one at the end.
            None for no validation: such a log cannot be judged.
        max_tokens: Maximum response length; None for the panel's standard. Any other value makes a
            different protocol, with its own fingerprint.
        temperature: Likewise; most panels' standard is greedy.
        top_p: Likewise.
        top_k: Likewise.
    """

    panel: str | None = None
    every: Count | None = 5
    max_tokens: Tokens | None = None
    temperature: Annotated[float, AfterValidator(_greedy_or_warm)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: CountOrZero | None = None


class TrainConfig(Part):
    """One training run, except for task, init, engine and seed.

    Attributes:
        advantage: First dimension.
        clipping: Second dimension: importance sampling and its limits.
        aggregation: Third dimension: how token losses are aggregated.
        sampling: Fourth dimension.
        learner: A user's class that replaces the shipped learner.
        kl: KL divergence from the init.
        entropy_coef: Coefficient of the bonus on the mean token entropy.
        regularizer_aggregation: How per-token KL and entropy are aggregated; None for the same way
            as the losses.
        format_penalty: Cost of an invalid turn; None for the task's.
        penalty_for: Which turns cost it: all invalid ones, as in the released code (the format is
            broken or the environment rejects the action), or only those that break the format.
        penalty_on: A turn's penalty applies to its own row, or an episode's sum to all its rows.
        penalty_in: Penalties are part of the scores that the advantage compares, as in the released
            code, or are subtracted from the finished advantages. If a group's rewards are equal,
            normalized scores make penalties as large as any success. Finished advantages are in
            standard deviations in most recipes, and in units of reward in `dr_grpo` and `rloo`,
            where the same penalty weighs less.
        void_episodes: Episodes with a turn that breaks the format are trained on like all others,
            or masked: their scores count in their groups, their tokens in no loss (SimpleTIR, arXiv
            2509.02479), as in the released code of mathematics.
        unit: Whether a row is a turn or a trajectory; None for the task's own.
        tis_cap: Truncated importance sampling against the engine's log-probabilities: the ratio
            trainer over engine weights every token, capped at this value; None is off.
        chat_template_kwargs: Variables for the chat template, such as `enable_thinking`, in
            training episodes and validations alike. No objects: a log names each by one key.
        rollout: How episodes are played.
        optimization: How an update is made.
        validation: When and how the panel is played.
        checkpoint_every: Updates between two checkpoints.
    """

    advantage: Annotated[SerializeAsAny[Advantage], by_name(Advantage)]
    clipping: Annotated[SerializeAsAny[Clipping], by_name(Clipping)]
    aggregation: Aggregation
    sampling: EpisodeSampling = EpisodeSampling()
    # Left out unless chosen: tracks and checkpoints are older than this setting.
    learner: Annotated[
        CustomLearner | None,
        SerializeAsAny(),
        by_name(CustomLearner, optional=True),
        Field(exclude_if=lambda value: value is None),
    ] = None
    kl: KL = KL()
    entropy_coef: Finite = 0.0
    # Left out unless set: tracks and checkpoints are older than this setting.
    regularizer_aggregation: Annotated[
        Aggregation | None, Field(exclude_if=lambda value: value is None)
    ] = None
    format_penalty: NotNegative | None = None
    penalty_for: Literal["invalid", "format"] = "invalid"
    penalty_on: Literal["turn", "episode"] = "turn"
    penalty_in: Literal["scores", "advantages"] = "scores"
    # Left out unless chosen: tracks and checkpoints are older than this setting.
    void_episodes: Annotated[
        Literal["trained", "masked"], Field(exclude_if=lambda value: value == "trained")
    ] = "trained"
    unit: Literal["turn", "trajectory"] | None = None
    tis_cap: Positive | None = None
    # Left out unless some are set: tracks and checkpoints are older than this setting.
    chat_template_kwargs: Annotated[
        dict[TemplateVariable, bool | int | Finite | str | list[JsonValue] | None],
        Field(exclude_if=lambda value: not value),
    ] = Field(default_factory=dict)
    rollout: Rollout = Rollout()
    optimization: Optimization = Optimization()
    validation: ValidationSettings = ValidationSettings()
    checkpoint_every: Count = 10

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        alone = self.rollout.group_size == 1
        if alone and self.advantage.needs_groups:
            raise ValueError(
                f"{self.advantage.name} compares the episodes of a group, but "
                "rollout.group_size=1 leaves nothing to compare: use "
                f"{_named(needs_groups=False)}"
            )
        batches = 1 + (self.rollout.max_staleness or 0)
        if self.rollout.concurrency is not None and self.rollout.concurrency < batches:
            raise ValueError(
                f"rollout.concurrency={self.rollout.concurrency} is fewer than the {batches} "
                "batches that rollout.max_staleness lets be under way"
            )
        if alone and self.sampling.dynamic is not None:
            raise ValueError("dynamic sampling would drop every group of one episode")
        if self.tis_cap is not None and self.rollout.temperature != 1:
            raise ValueError(
                "engines give log-probabilities at temperature 1, so tis_cap needs "
                "tokens sampled at it: set rollout.temperature=1, or leave out "
                "tis_cap"
            )
        if self.kl.place == "reward" and not self.advantage.of_tokens:
            raise ValueError(
                f"kl.place=reward needs advantages of tokens ({_named(of_tokens=True)}); "
                f"{self.advantage.name} has one for a row: use kl.place=loss"
            )
        return self

    @property
    def needs_critic(self) -> bool:
        """Whether the advantage uses a critic's values."""
        return isinstance(self.advantage, WithCritic)

    @property
    def needs_reference(self) -> bool:
        """Whether the KL to the init affects the update."""
        return self.kl.coef > 0

    def computes_like(self, other: "TrainConfig") -> bool:
        """Whether two configurations compute the same update from the same rows.

        One may state an aggregation of KL and entropy that the other uses implicitly, or any if
        neither is part of the loss.
        """
        of_loss = self.entropy_coef != 0 or (self.kl.coef > 0 and self.kl.place == "loss")
        means = {one.regularizer_aggregation or one.aggregation for one in (self, other)}
        dumps = [one.model_dump(exclude={"regularizer_aggregation"}) for one in (self, other)]
        return dumps[0] == dumps[1] and (len(means) == 1 or not of_loss)


def _named(**traits: bool) -> str:
    """Names of the advantages with these traits."""
    wanted = traits.items()
    choices = Advantage.choices.items()
    return " or ".join(n for n, c in choices if all(getattr(c, t) is v for t, v in wanted))
