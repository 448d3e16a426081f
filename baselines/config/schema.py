"""The schema of a training run: one choice in each of the four dimensions, and a scale.

A recipe (`recipes/*.yaml`) names the choices, a scale (`scales/*.yaml`) the sizes; `layers.py`
joins them. Every field has one meaning, and a contradiction is refused with its reason.
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
    """Distance to the init.

    Attributes:
        coef: 0 to log it only.
        estimator: Per-token estimate (Schulman): k1, k2 or k3.
        place: A term of the loss, or taken from the token rewards before advantages.
        measured: Where coef is 0: log it all the same, of some rows, which takes another model in
            memory.
    """

    coef: NotNegative = 0.0
    estimator: Literal["k1", "k2", "k3"] = "k3"
    place: Literal["loss", "reward"] = "loss"
    # Not there unless it is turned off: tracks and checkpoints are older than it.
    measured: Annotated[bool, Field(exclude_if=bool)] = True


class Rollout(Part):
    """How episodes are drawn.

    Attributes:
        groups: Entries of the training stream per update, over all processes and tasks.
        mixture: Groups of each task per update, which add up to `groups`; None cycles through
            the tasks.
        group_size: Episodes of each.
        max_tokens: Longest response.
        temperature: Of the draws. Nucleus and top-k are off in training: the engine's
            log-probabilities would be those of another distribution than the trainer's.
        max_turns: Turn limit, of all tasks or by task; None for the task's own. Tasks that are not
            named use their own.
        concurrency: Episodes in flight, in equal parts for the batches that can be under way; None
            for all at once.
        max_staleness: Asynchronous rollouts: episodes are played while the policy is updated, and
            no row is older than this many updates. None is synchronous: always 0.
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

    There is no dropout: a policy with dropout would differ from the one that was sampled from.

    Attributes:
        rank: Of an update.
        alpha: An update is scaled by `alpha / rank`.
    """

    rank: Annotated[int, Field(ge=1, le=512)] = 32
    alpha: Count = 32


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
        head_chunk: Tokens whose logits exist at a time; None for 2,048 on accelerators and for all
            of a micro-batch on CPUs. Results differ by rounding alone.
        skip_empty: Leave out steps whose advantages are all 0 where neither KL nor entropy is part
            of the loss: they would follow old moments and rounding alone.
        optimizer: AdamW, or with moments of 8 bits, which needs the library torchao.
        lora: Train low-rank updates instead of all weights; needs the library peft. Learning
            rates are then about ten times as high.
        freeze_vision: Leave the image side of a vision-language model as it is. A small one that is
            trained at the rate of the rest can lose within an update what it shows.
        max_skipped: Optimizer steps in a row that may be skipped because a loss or a gradient is
            not finite, before training stops.
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
    # These are not there unless they are set: tracks and checkpoints are older than they.
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
    max_tokens: Tokens | None = None
    temperature: Annotated[float, AfterValidator(_greedy_or_warm)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: CountOrZero | None = None


class TrainConfig(Part):
    """One training run, but for task, init, engine and seed.

    Attributes:
        advantage: First dimension.
        clipping: Second dimension: importance sampling and its limits.
        aggregation: Third dimension: how token losses become one.
        sampling: Fourth dimension.
        learner: A class of the user's that learns in place of the shipped one.
        kl: Distance to the init.
        entropy_coef: Bonus on the mean token entropy.
        regularizer_aggregation: How KL and entropy of tokens become one number; None for as the
            losses do.
        format_penalty: Cost of an invalid turn; None for the task's.
        penalty_for: Which turns cost it: all that are not valid, as in the released code (the
            format is broken or the world does not admit the action), or those that break the
            format alone.
        penalty_on: A turn's penalty falls on its own row, or all of an episode's on every row.
        penalty_in: Penalties are part of the scores that the advantage compares, as in the released
            code, or are subtracted from the finished advantages. Where a group's rewards are equal,
            normalized scores make penalties as large as any success. Finished advantages are
            standard deviations in most recipes, and points of reward in `dr_grpo` and `rloo`,
            where the same penalty weighs less.
        void_episodes: Those with a turn that breaks the format: trained on like all others, or
            masked: their scores count in their groups, their tokens in no loss (SimpleTIR, arXiv
            2509.02479), as in the released code of mathematics.
        unit: What a row is; None for the task's own.
        tis_cap: Truncated importance sampling against the engine's log-probabilities: the
            ratio trainer over engine weighs every token, at most this; None is off.
        chat_template_kwargs: Variables for the chat template, such as `enable_thinking`, in
            training episodes and validations alike. No objects: a log names each by one key.
        rollout: How episodes are drawn.
        optimization: How an update is made.
        validation: When and how the panel is played.
        checkpoint_every: Updates between two checkpoints.
    """

    advantage: Annotated[SerializeAsAny[Advantage], by_name(Advantage)]
    clipping: Annotated[SerializeAsAny[Clipping], by_name(Clipping)]
    aggregation: Aggregation
    sampling: EpisodeSampling = EpisodeSampling()
    # Not there unless it is chosen: tracks and checkpoints are older than it.
    learner: Annotated[
        CustomLearner | None,
        SerializeAsAny(),
        by_name(CustomLearner, optional=True),
        Field(exclude_if=lambda value: value is None),
    ] = None
    kl: KL = KL()
    entropy_coef: Finite = 0.0
    # Not there unless it is set: tracks and checkpoints are older than it.
    regularizer_aggregation: Annotated[
        Aggregation | None, Field(exclude_if=lambda value: value is None)
    ] = None
    format_penalty: NotNegative | None = None
    penalty_for: Literal["invalid", "format"] = "invalid"
    penalty_on: Literal["turn", "episode"] = "turn"
    penalty_in: Literal["scores", "advantages"] = "scores"
    # Not there unless it is chosen: tracks and checkpoints are older than it.
    void_episodes: Annotated[
        Literal["trained", "masked"], Field(exclude_if=lambda value: value == "trained")
    ] = "trained"
    unit: Literal["turn", "trajectory"] | None = None
    tis_cap: Positive | None = None
    # Not there unless some are set: tracks and checkpoints are older than it.
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
        """Whether the advantage looks at a critic's values."""
        return isinstance(self.advantage, WithCritic)

    @property
    def needs_reference(self) -> bool:
        """Whether the distance to the init moves the update."""
        return self.kl.coef > 0

    def computes_like(self, other: "TrainConfig") -> bool:
        """Whether two configurations compute the same update from the same rows.

        One may state how KL and entropy are aggregated where the other does so without saying it,
        or where neither is part of the loss.
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
