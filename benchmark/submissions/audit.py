"""Could the named model have generated this? Scores recorded responses under its weights.

A replay verifies that actions earn their rewards, not who chose them. With the weights, a sample of
episodes can be audited: the model scores each recorded token given everything before it (teacher
forcing).

- Greedy decoding takes the likeliest token, top-k one of the k likeliest, and nucleus sampling
  excludes the tail of the distribution. Tokens that could not have been chosen are counted.
- Sampled tokens are sometimes unlikely. For tokens sampled from a model's own distribution p (at
  the protocol's temperature), `prod_t p_t ** -b / sum_v p_v ** (1 - b)` has expectation 1 for any
  0 < b < 1, and so has the mean over several b: for any model, it exceeds x with probability 1 / x
  at most (Markov's inequality). Its logarithm is the evidence against the model. Nucleus and top-k
  sampling exclude unlikely tokens, which only lowers it. Source: Vovk and Wang, E-values:
  calibration, combination and applications (Annals of Statistics 49, 2021), for means and products.
- Records state the log-probability of every response. `off` is their distance from those under the
  weights: it exposes numbers that were invented, or computed with other weights.

The audit cannot detect a better policy whose responses the weights were trained to imitate. How
well it distinguishes checkpoints is measured by `tests/benchmarks/scripts/audit_power.py`.
"""

import math
import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from benchmark.engines.core.chat import Chat
from benchmark.engines.core.vision import PromptImages
from benchmark.engines.transformers.engine import context_of
from benchmark.evaluation.manifest import Manifest
from benchmark.evaluation.records import EpisodeRecord, SequenceRecord, TurnRecord
from benchmark.evaluation.replay import Claim, Replay, installed_panel, replay_records
from benchmark.submissions.reading.entry import ReadRun
from benchmark.submissions.token_scores import (
    EXACT,
    ROUGH,
    TokenPart,
    TokenScores,
    Tolerance,
    token_scores,
)
from tasks.chat.messages import Message, text_of
from tasks.seeding import stable_seed

if TYPE_CHECKING:
    from transformers import PreTrainedModel

EVIDENCE = math.log(1e4)
"""Threshold in nats that the model's own records reach in one of 10,000 episodes at most."""
MOST_UNSCORED = 0.02
"""Maximum share of an audit's turns whose texts encode to other tokens than were sampled; in this
project's own runs, it is 1 in 13,000."""


@dataclass(frozen=True, slots=True)
class EpisodeAudit:
    """One episode under the named model.

    Attributes:
        key: Task, panel, episode, repeat.
        tokens: Number of scored tokens. Responses whose text encodes to another number of tokens
            than were sampled are not scored.
        unscored: Number of turns that were not scored, for this reason or because they are too
            long.
        turns: Number of all turns.
        log_prob: Sum of the scored tokens' log-probabilities at temperature 1.
        far: Share of the tokens that could not have been chosen.
        bets: Logarithms of the products above, one for each of `BETS`; empty for greedy decoding.
        off: Nats per token between the recorded log-probability of a response and that under these
            weights, as the median over fully scored responses; None if there are none.
        of_its_text: Whether the recorded tokens of the episode match its prompts and responses or,
            if only token counts are recorded, whether most of these match the responses.
        tolerance: The tolerance used.
    """

    key: tuple[str, str, str, int]
    tokens: int
    unscored: int
    turns: int
    log_prob: float
    far: float
    bets: tuple[float, ...]
    off: float | None
    of_its_text: bool
    tolerance: Tolerance

    @property
    def evidence(self) -> float | None:
        """Evidence in nats that another model sampled the tokens; None for greedy decoding."""
        return evidence_of([self])

    @property
    def plausible(self) -> bool:
        """Whether the model may have generated the responses."""
        return self.far <= self.tolerance.far and (self.evidence or 0.0) < EVIDENCE

    @property
    def agrees(self) -> bool:
        """Whether the model's log-probabilities match the records within the tolerance."""
        return self.off is None or self.off <= self.tolerance.off

    @property
    def credible(self) -> bool:
        """Whether no test speaks against the records."""
        return self.plausible and self.agrees and self.of_its_text


def evidence_of(audits: Sequence[EpisodeAudit]) -> float | None:
    """Joint evidence from several episodes that another model sampled the tokens.

    Args:
        audits: Audits of one model; those with greedy decoding are ignored.

    Returns:
        Nats, to compare with `EVIDENCE`; None if nothing was sampled.
    """
    drawn = [audit.bets for audit in audits if audit.bets]
    if not drawn:
        return None
    sums = torch.tensor(drawn, dtype=torch.float64).sum(0)
    return float(sums.logsumexp(0)) - math.log(len(sums))


def too_many_unscored(audits: Sequence[EpisodeAudit]) -> bool:
    """Whether more turns are unscored than in honest records, which means that lengths are false.

    Args:
        audits: Audits of one model.
    """
    unscored = sum(audit.unscored for audit in audits)
    return unscored > MOST_UNSCORED * sum(audit.turns for audit in audits) + 1


def audit_run(
    run: ReadRun, model: "PreTrainedModel", chat: Chat, episodes: int, seed: int = 0
) -> Iterator[EpisodeAudit]:
    """Score a random sample of a run's episodes.

    Args:
        run: The submitted run.
        model: The named weights.
        chat: Their tokenizer and template.
        episodes: Number of episodes.
        seed: Seed of the sample.

    Raises:
        UserError: The run shows images, and the model cannot read them.
    """
    playable = [record for record in run.records if record.turns]
    chosen = random.Random(stable_seed("audit", run.path, seed)).sample(
        playable, min(episodes, len(playable))
    )
    exact = run.manifest.engine.get("dtype") == "float32" and model.dtype == torch.float32
    tolerance = EXACT if exact else ROUGH
    context = context_of(model)
    claims = list(_claims(chosen, run.manifest))
    with closing(replay_records(claims, 1, trust=True)) as replays:
        for replay, (record, protocol, _, _) in zip(replays, claims, strict=True):
            variables = protocol.chat_template_kwargs
            parts, of_its_text = _parts(record, replay, chat, context, variables)
            scores = [token_scores(part, model, protocol.sampling, tolerance) for part in parts]
            unscored = 0 if record.sequence is not None else len(record.turns) - len(parts)
            yield _audit(record, parts, scores, of_its_text, tolerance, unscored)


def _claims(records: Sequence[EpisodeRecord], manifest: Manifest) -> Iterator[Claim]:
    panels = {(p.task, p.panel): (p, *installed_panel(p)) for p in manifest.panels}
    for record in records:
        protocol, task, panel = panels[record.task, record.panel]
        (entry,) = (entry for entry in panel.entries if entry.id == record.episode)
        yield record, protocol, task, entry


def _parts(
    record: EpisodeRecord,
    replay: Replay,
    chat: Chat,
    context: int,
    variables: Mapping[str, Any],
) -> tuple[list[TokenPart], bool]:
    """The whole episode if it is one sequence, else each turn whose tokens are known.

    Parts longer than the model's context are excluded, as the model cannot have written them.

    Returns:
        The parts to score, and whether their tokens match the recorded prompts and responses.
    """
    views = [replay.start, *(step.view for step in replay.steps)]
    shown = [list(view.messages) for view in views if view is not None][: len(record.turns)]
    if record.sequence is not None:
        ids = record.sequence.token_ids
        if len(ids) > context or not _is_of_its_text(
            record, record.sequence, shown, chat, variables
        ):
            return [], False
        return [_sequence_part(record, record.sequence)], True
    pairs = zip(shown, record.turns, strict=False)
    turns = [_turn_part(*chat.read(messages, variables), turn, chat) for messages, turn in pairs]
    known = [part for part in turns if part is not None and len(part.ids) <= context]
    return known, 2 * len(known) >= len(record.turns)


def _is_of_its_text(
    record: EpisodeRecord,
    sequence: SequenceRecord,
    shown: Sequence[list[Message]],
    chat: Chat,
    variables: Mapping[str, Any],
) -> bool:
    """Whether a sequence's tokens match the prompts shown and the responses.

    This compares texts, because a server may have tokenized the same prompt differently.
    """
    ids, written = sequence.token_ids, sequence.written
    if not len(written) == len(record.turns) == len(shown) or written[-1][1] != len(ids):
        return False
    if max(ids) >= len(chat.tokenizer):  # decoding would skip it
        return False
    prompt = chat.render(shown[0], variables)
    for turn, ((start, stop), turned) in enumerate(zip(written, record.turns, strict=True)):
        drawn = chat.response(ids[:start], ids[start:stop])
        if chat.prompt_text(ids[:start]) != chat.prompt_text(prompt):
            return False
        if turn + 1 == len(written):
            return drawn == turned.response
        # The conversation keeps the beginning of a response, possibly cut within a character.
        begun = turned.response.startswith(drawn.rstrip("\ufffd"))
        if not begun or not drawn.startswith(text_of(shown[turn + 1][-2]).rstrip("\ufffd")):
            return False
        prompt = chat.continue_conversation(
            ids[:start], ids[start:stop], shown[turn + 1], variables
        )
    return False


def _sequence_part(record: EpisodeRecord, sequence: SequenceRecord) -> TokenPart:
    chosen: list[int] = []
    stated = []
    for (start, stop), turn in zip(sequence.written, record.turns, strict=False):
        here = slice(len(chosen), len(chosen) + stop - start)
        chosen += range(start, stop)
        # The tokens that the conversation did not keep are unknown.
        if turn.log_prob is not None and turn.response_tokens == stop - start:
            stated.append((here, turn.log_prob))
    return TokenPart(list(sequence.token_ids), chosen, tuple(stated))


def _turn_part(
    prompt: list[int], prompt_images: PromptImages | None, turn: TurnRecord, chat: Chat
) -> TokenPart | None:
    """One turn; None if its text encodes to another number of tokens than were sampled."""
    text = turn.response.removeprefix(chat.opened(prompt))
    response = chat.tokenizer.encode(text, add_special_tokens=False)
    stops = sorted(chat.stop_ids) if turn.finish_reason == "stop" else []
    if turn.response_tokens not in (None, len(response) + len(stops[:1])):
        return None
    ids = [*prompt, *response, *(stops if len(stops) == 1 else [])]
    chosen = list(range(len(prompt), len(ids)))
    stated = () if turn.log_prob is None else ((slice(0, len(chosen)), turn.log_prob),)
    return TokenPart(ids, chosen, stated, tuple(stops) if len(stops) > 1 else (), prompt_images)


def _audit(
    record: EpisodeRecord,
    parts: Sequence[TokenPart],
    scores: Sequence[TokenScores],
    of_its_text: bool,
    tolerance: Tolerance,
    unscored: int,
) -> EpisodeAudit:
    tokens = sum(len(part.chosen) for part in parts)
    off = [
        _off(found.log_probs[where], found.ends, stated)
        for part, found in zip(parts, scores, strict=True)
        for where, stated in part.stated
    ]
    return EpisodeAudit(
        key=record.key,
        tokens=tokens,
        unscored=unscored,
        turns=len(record.turns),
        log_prob=math.fsum(float(found.log_probs.sum()) for found in scores),
        far=sum(found.far for found in scores) / max(tokens, 1),
        bets=tuple(map(sum, zip(*(found.bets for found in scores), strict=True))),
        off=statistics.median(off) if off else None,
        of_its_text=of_its_text,
        tolerance=tolerance,
    )


def _off(log_probs: torch.Tensor, ends: torch.Tensor, stated: float) -> float:
    """Error of the stated log-probability of a response, in nats per token.

    Servers differ in whether they include the stop token, and records do not say which of several
    stop tokens it was, so the closest reading counts.
    """
    total = float(log_probs.sum())
    readings = [total, total - float(log_probs[-1:].sum())]
    readings += [total + float(end) for end in ends]
    return min(abs(reading - stated) for reading in readings) / max(len(log_probs), 1)
