"""Rollouts: groups of episodes from the training stream, and their rows for an update.

A row is one sequence: a turn (prompt and response) or a whole trajectory. Token ids are the
engine's, as sampled; nothing is retokenized.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from baselines.config.run import Unit, max_turns_of, unit_of
from baselines.config.schema import TrainConfig
from benchmark.engines.core.base import Sampling
from benchmark.evaluation.protocol import PanelProtocol
from benchmark.evaluation.records import penalty_of
from benchmark.evaluation.rollout import Job, Trajectory
from benchmark.evaluation.sequences import token_sequence
from benchmark.logs.metrics import OF_EACH_TASK
from tasks.base import Task
from tasks.chat.images import Image
from tasks.chat.messages import images_of
from tasks.errors import UserError
from tasks.seeding import sha256_text

Tokens = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.float32]

STREAM = "training-stream"
"""Panel name of training episodes, which come from an endless stream instead of a panel."""


@dataclass(frozen=True, slots=True)
class Row:
    """One sequence.

    Attributes:
        task: The task's name.
        group: Position of its group in the task's training stream.
        member: Number of the episode within the group.
        turn: Number of the turn, from 0; 0 for a trajectory.
        prompt_ids: Tokens before the first sampled token.
        response_ids: All tokens from the first sampled one on.
        response_mask: 1 for sampled tokens, 0 for the environment's text in between.
        engine_log_probs: Log-probabilities from the engine, as sampled; 0 where masked.
        versions: Versions of the weights that sampled the first and the last token.
        reward: The episode's return without format penalties.
        penalty: Format penalties of this row.
        step_reward: The environment's reward for this turn; the sum for a trajectory.
        anchor: The bare observation before the turn, for GiGPO's step groups.
        success: The episode reached its goal.
        images: Images of the prompt, in order.
        masked: Its tokens count in no loss, but its score counts in its group.
    """

    task: str
    group: int
    member: int
    turn: int
    prompt_ids: Tokens
    response_ids: Tokens
    response_mask: Tokens
    engine_log_probs: Numbers
    versions: tuple[int, int]
    reward: float
    penalty: float
    step_reward: float
    anchor: str
    success: bool
    images: tuple[Image, ...] = ()
    masked: bool = False

    @property
    def key(self) -> tuple[str, int, int, int]:
        """(task, group, member, turn): unique, and defines the order of a rollout's rows."""
        return self.task, self.group, self.member, self.turn

    @property
    def text(self) -> str:
        """What messages call it, in the words of rollout samples."""
        return f"{self.task}, group {self.group}, member {self.member}, turn {self.turn}"

    @property
    def length(self) -> int:
        """Number of all tokens."""
        return len(self.prompt_ids) + len(self.response_ids)


@dataclass(frozen=True, slots=True)
class PlayedEpisode:
    """An episode's facts in a rollout, besides its rows.

    Attributes:
        task: Task name.
        group: Position of its group in the stream.
        member: Number within the group.
        success: The goal was reached; False after an error.
        score: The task's score; the worst one after an error.
        reward: Sum of the environment's rewards; the worst one after an error.
        penalty: Sum of its format penalties.
        turns: Number of turns played.
        format_ok: Turns in the required format.
        action_ok: Turns whose action the environment accepted.
        truncated: Truncated responses.
        repeated: Responses that repeat themselves (`repeats_itself`).
        prompt_tokens: Sum over the turns.
        response_tokens: Response tokens of each turn.
        error: Why it could not be completed; None if it was. An episode with an error is not
            trained on.
        lost_turns: Turns missing from its trajectory row: the chat template removed the response
            from the next prompt, or the server retokenized it.
        masked: It has a turn that breaks the format, and such episodes are masked.
    """

    task: str
    group: int
    member: int
    success: bool
    score: float
    reward: float
    penalty: float
    turns: int
    format_ok: int
    action_ok: int
    truncated: int
    repeated: int
    prompt_tokens: int
    response_tokens: tuple[int, ...]
    error: str | None
    lost_turns: int = 0
    masked: bool = False

    @property
    def episode_return(self) -> float:
        """Rewards minus format penalties."""
        return self.reward - self.penalty


@dataclass(frozen=True, slots=True)
class PlayedGroup:
    """All episodes of one entry, and their rows."""

    task: str
    group: int
    episodes: tuple[PlayedEpisode, ...]
    rows: tuple[Row, ...]


def training_protocol(task: Task, config: TrainConfig, seed: int) -> PanelProtocol:
    """The protocol of training episodes; its fingerprint seeds their sampling."""
    rollout = config.rollout
    penalty = config.format_penalty
    return PanelProtocol(
        task=task.info.name,
        task_version=task.info.version,
        panel=STREAM,
        panel_sha256=sha256_text(f"{STREAM} {seed}"),
        episodes=rollout.group_size,
        max_turns=max_turns_of(config, task),
        history_turns=task.info.history_turns,
        format_penalty=task.info.format_penalty if penalty is None else penalty,
        contract=task.contract(),
        prompt_sha256=sha256_text(task.prompt_template()),
        trace_sha256=None,
        settings=dict(task.settings()),
        packages=dict(task.packages()),
        # Neither nucleus nor top-k: samples must come from the distribution that is trained.
        sampling=Sampling(temperature=rollout.temperature, max_tokens=rollout.max_tokens),
        repeats=rollout.group_size,
        seed=seed,
        chat_template_kwargs=dict(config.chat_template_kwargs),
    )


def longest_row(config: TrainConfig, tasks: Sequence[Task]) -> int:
    """Maximum response tokens of a row."""
    tokens = config.rollout.max_tokens
    turns = [max_turns_of(config, task) for task in tasks if unit_of(config, task) == "trajectory"]
    return tokens * max(turns, default=1)


def group_jobs(task: Task, protocol: PanelProtocol, group: int, size: int) -> list[Job]:
    """The episodes of one group: `size` plays of entry number `group` of the stream."""
    entry = task.training_entry(group, protocol.seed)
    # Streams over a finite set of games repeat entries, but must not repeat their samples.
    return [Job(task, entry, group * size + member, protocol) for member in range(size)]


def played_group(
    trajectories: Sequence[Trajectory], group: int, unit: Unit, config: TrainConfig
) -> PlayedGroup:
    """Turn the trajectories of a group into rows.

    Args:
        trajectories: All episodes, by member.
        group: Position in the stream.
        unit: Whether a row is a turn or a trajectory.
        config: Which turns are penalized, and on which rows.

    Raises:
        UserError: The engine returns no token ids or log-probabilities, or rows are trajectories
            but a prompt does not continue the one before.
    """
    task = trajectories[0].job.task.info.name
    episodes = [_episode(t, group, member, config) for member, t in enumerate(trajectories)]
    rows: list[Row] = []
    for member, (trajectory, episode) in enumerate(zip(trajectories, episodes, strict=True)):
        if episode.error is not None:
            continue
        _check_tokens(trajectory)
        if unit == "turn":
            rows += _turn_rows(trajectory, episode, config)
        else:
            row, lost = _trajectory_row(trajectory, episode)
            rows.append(row)
            episodes[member] = replace(episode, lost_turns=lost)
    return PlayedGroup(task, group, tuple(episodes), tuple(rows))


def _episode(trajectory: Trajectory, group: int, member: int, config: TrainConfig) -> PlayedEpisode:
    job, turns, outcome = trajectory.job, trajectory.turns, trajectory.outcome
    worst = job.task.worst(job.protocol.max_turns)
    return PlayedEpisode(
        task=job.task.info.name,
        group=group,
        member=member,
        success=outcome.success if outcome else False,
        score=outcome.score if outcome else worst.score,
        reward=math.fsum(turn.step.reward for turn in turns) if outcome else worst.reward,
        penalty=penalty_of(job.protocol, [turn.step for turn in turns], charged=config.penalty_for),
        turns=len(turns),
        format_ok=sum(turn.step.format_ok for turn in turns),
        action_ok=sum(turn.step.action_ok for turn in turns),
        truncated=sum(turn.generation.finish_reason == "length" for turn in turns),
        repeated=sum(repeats_itself(turn.generation.response_ids or ()) for turn in turns),
        prompt_tokens=sum(turn.generation.prompt_tokens or 0 for turn in turns),
        response_tokens=tuple(turn.generation.response_tokens or 0 for turn in turns),
        error=trajectory.error,
        masked=config.void_episodes == "masked" and not all(turn.step.format_ok for turn in turns),
    )


def _check_tokens(trajectory: Trajectory) -> None:
    for turn in trajectory.turns:
        made = turn.generation
        if made.prompt_ids is None or not made.response_ids or made.token_log_probs is None:
            raise UserError(
                "training needs an engine with token ids and log-probabilities: vllm "
                "or transformers"
            )


def _turn_rows(trajectory: Trajectory, episode: PlayedEpisode, config: TrainConfig) -> list[Row]:
    rows = []
    for number, turn in enumerate(trajectory.turns):
        generation = turn.generation
        response_ids = np.array(generation.response_ids, np.int32)
        anchor = trajectory.start if number == 0 else trajectory.turns[number - 1].step.view
        assert anchor is not None
        rows.append(
            Row(
                task=episode.task,
                group=episode.group,
                member=episode.member,
                turn=number,
                prompt_ids=np.array(generation.prompt_ids, np.int32),
                response_ids=response_ids,
                response_mask=np.ones_like(response_ids),
                engine_log_probs=np.array(generation.token_log_probs, np.float32),
                versions=generation.weights_versions,
                reward=episode.reward,
                penalty=penalty_of(trajectory.job.protocol, [turn.step], charged=config.penalty_for)
                if config.penalty_on == "turn"
                else episode.penalty,
                step_reward=turn.step.reward,
                anchor=anchor.observation,
                success=episode.success,
                images=images_of(anchor.messages),
                masked=episode.masked,
            )
        )
    return rows


def _trajectory_row(trajectory: Trajectory, episode: PlayedEpisode) -> tuple[Row, int]:
    """The row of a whole episode, and the number of turns that are not in it."""
    generations = [turn.generation for turn in trajectory.turns]
    joined = token_sequence(generations)
    if joined is None or not joined.written:
        raise UserError(
            f"with this model's chat template, a prompt of {episode.task} does not "
            "continue the one before, so an episode is not one sequence: use --set "
            "unit=turn"
        )
    begin = joined.written[0][0]
    ids = np.array(joined.token_ids, np.int32)
    mask, log_probs = np.zeros(len(ids), np.int32), np.zeros(len(ids), np.float32)
    for (start, stop), turn in zip(joined.written, joined.turns, strict=True):
        mask[start:stop] = 1
        log_probs[start:stop] = (generations[turn].token_log_probs or ())[: stop - start]
    assert trajectory.start is not None
    versions = [generation.weights_versions for generation in generations]
    row = Row(
        task=episode.task,
        group=episode.group,
        member=episode.member,
        turn=0,
        prompt_ids=ids[:begin],
        response_ids=ids[begin:],
        response_mask=mask[begin:],
        engine_log_probs=log_probs[begin:],
        versions=(min(first for first, _ in versions), max(last for _, last in versions)),
        reward=episode.reward,
        penalty=episode.penalty,
        step_reward=episode.reward,
        anchor=trajectory.start.observation,
        success=episode.success,
        masked=episode.masked,
    )
    return row, len(generations) - len(joined.turns)


def repeats_itself(tokens: Sequence[int]) -> bool:
    """Whether more than half of a response's 4-grams have occurred in it before.

    Degenerate text ("!!!!") is an early sign of collapse. Responses of fewer than eight tokens
    never count.
    """
    if len(tokens) < 8:
        return False
    grams = [tuple(tokens[i : i + 4]) for i in range(len(tokens) - 3)]
    return 1 - len(set(grams)) / len(grams) > 0.5


def rollout_metrics(drawn: Sequence[PlayedGroup], tries: int) -> dict[str, float | None]:
    """The rollout metrics of an update's log line.

    With several tasks, some are also given per task.

    Args:
        drawn: All groups that were played, so that filtering does not bias the rates.
        tries: Number of batches drawn.
    """
    whole = _metrics_of(drawn, tries)
    tasks = dict.fromkeys(group.task for group in drawn)
    if len(tasks) == 1:
        return whole
    for task in tasks:
        own = _metrics_of([group for group in drawn if group.task == task], tries)
        whole |= {f"{name}@{task}": own[name] for name in OF_EACH_TASK}
    return whole


def _metrics_of(drawn: Sequence[PlayedGroup], tries: int) -> dict[str, float | None]:
    episodes = [episode for group in drawn for episode in group.episodes]
    turns = sum(episode.turns for episode in episodes)
    lengths = [tokens for episode in episodes for tokens in episode.response_tokens]
    count = len(episodes)
    # Leave out episodes with errors, as in training.
    returns = [[e.episode_return for e in group.episodes if e.error is None] for group in drawn]
    uniform = sum(len(set(group)) <= 1 for group in returns)

    def mean(values: Sequence[float]) -> float:
        return math.fsum(values) / len(values) if values else math.nan

    def per_turn(total: int) -> float | None:
        return total / turns if turns else None

    return {
        "rollout/success": mean([e.success for e in episodes]),
        "rollout/score": mean([e.score for e in episodes]),
        "rollout/return": mean([e.episode_return for e in episodes]),
        "rollout/reward": mean([e.reward for e in episodes]),
        "rollout/penalty": mean([e.penalty for e in episodes]),
        "rollout/format_ok": per_turn(sum(e.format_ok for e in episodes)),
        "rollout/action_ok": per_turn(sum(e.action_ok for e in episodes)),
        "rollout/turns": turns / count,
        "rollout/episodes": count,
        "rollout/groups": len(drawn),
        "rollout/uniform_groups": uniform / len(drawn),
        "rollout/group_std": mean([statistics.pstdev(group) for group in returns if group]),
        "rollout/tries": tries,
        "rollout/errors": sum(e.error is not None for e in episodes),
        "rollout/lost_turns": sum(e.lost_turns for e in episodes),
        "rollout/masked": sum(e.masked for e in episodes),
        "rollout/repeated": per_turn(sum(e.repeated for e in episodes)),
        "response/tokens_mean": mean(lengths) if lengths else None,
        "response/tokens_max": max(lengths, default=None),
        "response/truncated": per_turn(sum(e.truncated for e in episodes)),
        "tokens/prompt": sum(e.prompt_tokens for e in episodes),
        "tokens/response": sum(lengths),
    }
