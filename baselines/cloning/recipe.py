"""Recipes of behavior cloning: one YAML file contains everything that defines an init."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from baselines.cloning.tiny_models import TinyModelConfig
from baselines.inits.registry import INITS
from tasks.errors import UserError, suggestion
from tasks.strict import first_fault, read_yaml


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _unset(value: object) -> bool:
    return not value


_Tokens = Annotated[int, Field(gt=0)]
_Balance = Annotated[float, Field(gt=0, le=1)]
_Share = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Demonstrations(_Strict):
    """The demonstrations to clone.

    Attributes:
        episodes: Number of episodes of the task's demonstrating player.
        stream: Seed of their training stream.
        noise: Share of turns in which the environment executes something other than the player's
            response: a mistake (`Task.mistaken_response`) or the last response again. The player's
            response is cloned all the same, so that a clone has seen how to recover from a mistake
            (noise injection, Laskey et al. 2017).
        mistakes: Share of turns in which a careless player (`Task.careless_response`) is cloned
            instead. The clone learns both habits, and reinforcement learning finds out which one
            pays off.
    """

    episodes: int = Field(gt=0)
    stream: int = Field(ge=0)
    noise: float = Field(default=0.0, ge=0, lt=1)
    mistakes: float = Field(default=0.0, ge=0, lt=1)


class Stage(_Strict):
    """One stage of the training.

    Attributes:
        steps: Optimizer steps.
        prompt_tokens: Number of tokens to show at the end of every prompt; None for all. A first
            stage on the ends of prompts costs a fraction and learns faster if the important part is
            at the end. A mapping sets it by task; prompts of other tasks are shown in full.
        shares: Relative sampling weights of tasks; they need not add up to 1. None for equal
            weights. A turn that the stage leaves out (`first_turns`, `careful`) is replaced by a
            draw from all tasks, so tasks with long episodes get less than their share of a step.
        first_turns: Show only the first turns of episodes: short prompts in which only the goal
            matters, to first learn to copy words from it.
        careful: Tasks without their careless player's responses.
        balance: How evenly to sample the kinds of a task's actions (their first words), by task:
            each in proportion to its turns, mistakes included, to the power of 1 - balance, so that
            1 is uniform. Decisive actions can be rare, such as taking what a long search has found.
            Other tasks are sampled as they were played.
        batch_size: Turns per step; None for that of the training.
        learning_rate: Restart the learning rate here (a warm restart, Loshchilov and Hutter 2017):
            it falls from this value to the final one until the end or the next restart, and AdamW's
            moments are reset. None to continue without a restart, as the first stage must.
        final_learning_rate: Final value after this restart; only with a learning rate. None for
            that of the training.
    """

    steps: int = Field(gt=0)
    prompt_tokens: _Tokens | dict[str, _Tokens] | None = None
    # Left out if unset: checkpoints identify their recipe by a hash of all of it.
    shares: dict[str, _Share] | None = Field(
        default=None, min_length=1, exclude_if=lambda shares: shares is None
    )
    first_turns: bool = False
    # Left out for the same reason.
    careful: tuple[str, ...] = Field(default=(), exclude_if=lambda careful: not careful)
    balance: dict[str, _Balance] = Field(default={}, exclude_if=lambda balance: not balance)
    batch_size: int | None = Field(default=None, gt=0)
    learning_rate: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    final_learning_rate: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    def tokens_shown(self, task: str) -> int | None:
        """Number of tokens to show of a task's prompts; None for all."""
        shown = self.prompt_tokens
        return shown.get(task) if isinstance(shown, dict) else shown

    @model_validator(mode="after")
    def _final_needs_a_start(self) -> Self:
        if self.final_learning_rate is not None and self.learning_rate is None:
            raise ValueError(
                "a stage's final_learning_rate needs a learning_rate in the same stage"
            )
        return self


class Training(_Strict):
    """Hyperparameters: AdamW, linear warm-up, then a cosine to the final learning rate.

    Attributes:
        stages: Consecutive stages; the last one shows whole prompts.
        batch_size: Turns per step, over all processes, unless a stage sets its own.
        learning_rate: Learning rate after the warm-up.
        warmup_steps: Steps of linear warm-up.
        final_learning_rate: Learning rate at the last step.
        weight_decay: Weight decay of AdamW.
        max_grad_norm: Global norm to which gradients are clipped.
        checkpoint_every: Steps between checkpoints to resume from.
        average_ends: The final weights are the mean over this many last ends of the learning rate's
            cycles (stochastic weight averaging, Izmailov et al. 2018); 1 uses only the last.
        stop_after: Step after which to stop training, in the middle of the stages and of the
            learning rate schedule, to leave room for improvement; None to complete it.
    """

    stages: tuple[Stage, ...] = Field(min_length=1)
    batch_size: int = Field(gt=0)
    learning_rate: float = Field(gt=0, allow_inf_nan=False)
    warmup_steps: int = Field(ge=0)
    final_learning_rate: float = Field(ge=0, allow_inf_nan=False)
    weight_decay: float = Field(ge=0, allow_inf_nan=False)
    max_grad_norm: float = Field(gt=0, allow_inf_nan=False)
    checkpoint_every: int = Field(gt=0)
    average_ends: int = Field(default=1, gt=0)
    stop_after: int | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _stages_fit(self) -> Self:
        if self.stages[-1].prompt_tokens is not None or self.stages[-1].first_turns:
            raise ValueError(
                "the last stage must use all turns and whole prompts: leave out "
                "prompt_tokens and first_turns"
            )
        if self.stages[0].learning_rate is not None:
            raise ValueError("the first stage uses training.learning_rate: leave out its own")
        return self

    @model_validator(mode="after")
    def _enough_ends(self) -> Self:
        falls = 1 + sum(stage.learning_rate is not None for stage in self.stages)
        if self.average_ends > falls:
            raise ValueError(f"average_ends={self.average_ends}, but the rate falls {falls} times")
        if self.average_ends > 1 and self.stop_after is not None:
            raise ValueError("average_ends needs a full training run: leave out stop_after")
        return self

    @property
    def averaged_steps(self) -> tuple[int, ...]:
        """Steps whose weights are averaged; empty if only the last ones are used."""
        if self.average_ends == 1:
            return ()
        ends = [step for step in range(1, self.steps) if self.restarts_at(step + 1)]
        return (*ends, self.steps)[-self.average_ends :]

    @property
    def steps(self) -> int:
        """Number of optimizer steps that are made."""
        planned = sum(stage.steps for stage in self.stages)
        return planned if self.stop_after is None else min(planned, self.stop_after)

    def restarts_at(self, step: int) -> bool:
        """Whether a step (from 1) is the first after a restart."""
        begin, _, _, _ = self.schedule_at(step)
        return begin > 0 and step == begin + 1

    def schedule_at(self, step: int) -> tuple[int, int, float, float]:
        """The learning rate cycle of a step.

        Returns:
            Steps before the cycle, its length in steps, its initial rate and its final rate.
        """
        begin, end = 0, 0
        peak, final = self.learning_rate, self.final_learning_rate
        for stage in self.stages:
            if stage.learning_rate is not None:
                if step <= end:
                    break
                begin, peak, own = end, stage.learning_rate, stage.final_learning_rate
                final = self.final_learning_rate if own is None else own
            end += stage.steps
        return begin, end - begin, peak, final

    def stage_at(self, step: int) -> Stage:
        """The stage of a step (from 1)."""
        for stage in self.stages:
            if step <= stage.steps:
                return stage
            step -= stage.steps
        raise ValueError(f"the training ended {step} steps before")


class TaskDemonstrations(Demonstrations):
    """The demonstrations of one task to clone.

    Attributes:
        settings: Task settings, as in `--set TASK.NAME=VALUE`, for example a different view.
    """

    settings: dict[str, str] = Field(default_factory=dict)


class BCRecipe(_Strict):
    """One behavior-cloning run.

    Attributes:
        task: Task whose demonstrations are cloned.
        settings: Task settings, as in `--set TASK.NAME=VALUE`, for example a different view.
        tasks: Several tasks for one model; replaces `task`, `settings` and `demonstrations`.
        seed: Seed of new weights and of the order of the data.
        demonstrations: The demonstrations to clone.
        model: Shape of a new model with its own tokenizer; or
        init: a model to start from: the name of an init, a folder or a hub id.
        training: The hyperparameters.
    """

    # Left out if unset: checkpoints identify their recipe by a hash of all of it.
    task: str | None = Field(default=None, exclude_if=_unset)
    settings: dict[str, str] = Field(default_factory=dict, exclude_if=_unset)
    tasks: dict[str, TaskDemonstrations] = Field(default_factory=dict, exclude_if=_unset)
    seed: int = Field(ge=0)
    demonstrations: Demonstrations | None = Field(default=None, exclude_if=_unset)
    model: TinyModelConfig | None = None
    init: str | None = None
    training: Training

    @model_validator(mode="after")
    def _one_start(self) -> Self:
        if (self.model is None) == (self.init is None):
            raise ValueError("give either model (a new model) or init (a starting checkpoint)")
        return self

    @model_validator(mode="after")
    def _one_task_or_several(self) -> Self:
        alone = self.task is not None and self.demonstrations is not None
        if self.tasks and (self.task or self.settings or self.demonstrations):
            raise ValueError("give either tasks (several) or task with its demonstrations")
        if not self.tasks and not alone:
            raise ValueError("give task and its demonstrations, or tasks")
        for stage in self.training.stages:
            shown = stage.prompt_tokens
            of_tasks = shown if isinstance(shown, dict) else {}
            for named in (stage.shares or (), stage.balance, stage.careful, of_tasks):
                if unknown := sorted(set(named) - set(self.sources)):
                    raise ValueError(f"a stage names {unknown[0]}, which is not cloned")
        return self

    @property
    def sources(self) -> dict[str, TaskDemonstrations]:
        """The demonstrations to clone, by task."""
        if self.task is None or self.demonstrations is None:
            return self.tasks
        own = self.demonstrations.model_dump()
        return {self.task: TaskDemonstrations(**own, settings=self.settings)}


def find_recipe(name: str) -> Path:
    """Find a recipe by the name of a shipped init, or as a file.

    Raises:
        UserError: There is none; the message names close matches.
    """
    if Path(name).is_file():
        return Path(name)
    shipped = {path.parent.name: path for path in sorted(INITS.glob("*/recipe.yaml"))}
    if name in shipped:
        return shipped[name]
    raise UserError(f"there is no recipe {name!r}{suggestion(name, tuple(shipped))}")


def read_recipe(path: Path) -> BCRecipe:
    """Read a recipe.

    Raises:
        UserError: It is not a valid recipe; the message names the field.
    """
    try:
        return BCRecipe.model_validate(read_yaml(path))
    except ValidationError as error:
        raise UserError(f"{path} is not a recipe: {first_fault(error)}") from error
