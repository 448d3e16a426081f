"""Could the named model have said that? Scores recorded responses under its weights.

A replay shows that actions earn their rewards, not who chose them. With the weights at hand, a few
episodes can be looked at: each recorded token is given to the model after everything before it
(teacher forcing), and is compared with what the model finds most likely.

- Greedy decoding takes the likeliest token, top-k one of the k likeliest, and a nucleus leaves out
  what is behind most of the probability. Tokens that could not have been chosen so are counted.
- Draws are surprising now and then. For tokens that were drawn from a model's own distribution p
  (at the protocol's temperature), `prod_t p_t ** -b / sum_v p_v ** (1 - b)` is 1 on average for any
  0 < b < 1, and so is the mean over several b: it is above x in one of x cases at most (Markov's
  inequality), whatever the model. Its logarithm is the evidence against the model. Nucleus and
  top-k leave out unlikely tokens, which only lowers it. Source: Vovk and Wang, E-values:
  calibration, combination and applications (Annals of Statistics 49, 2021), for means and products.
- Records state the log-probability of every response. `off` is how far these are from what the
  weights give: numbers that were invented, or computed with other weights.

What this cannot see: a better policy with weights that were trained to say the same words. How well
it tells checkpoints apart is measured by `tests/benchmarks/scripts/audit_power.py`.
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
"""Nats of evidence that records of the model itself reach once in 10,000 episodes at most."""
MOST_UNSCORED = 0.02
"""Share of the turns of an audit that may have other tokens than their texts are encoded to: of
this project's own runs 1 of 13,000 has."""


@dataclass(frozen=True, slots=True)
class EpisodeAudit:
    """One episode under the named model.

    Attributes:
        key: Which one: task, panel, episode, repeat.
        tokens: Tokens that were scored: of all responses but those whose text is encoded to another
            number of tokens than were drawn.
        unscored: Turns that were not scored, since they are such responses or too long.
        turns: All turns.
        log_prob: Sum of their log-probabilities, untempered.
        far: Share of the tokens that could not have been chosen.
        bets: Logarithms of the products above, one for each of `BETS`; none for greedy decoding.
        off: Nats per token between the recorded log-probability of a response and that under these
            weights, the median over the responses that were scored whole; None if there are none.
        of_its_text: The recorded tokens of the episode are those of its prompts and responses; or,
            where only their number is recorded, that of most responses is what the text has.
        tolerance: What was allowed for.
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
        """Nats of evidence that the draws are another model's; None for greedy decoding."""
        return evidence_of([self])

    @property
    def plausible(self) -> bool:
        """The model may have said it."""
        return self.far <= self.tolerance.far and (self.evidence or 0.0) < EVIDENCE

    @property
    def agrees(self) -> bool:
        """Its log-probabilities may be those of the records."""
        return self.off is None or self.off <= self.tolerance.off

    @property
    def credible(self) -> bool:
        """Nothing speaks against it."""
        return self.plausible and self.agrees and self.of_its_text


def evidence_of(audits: Sequence[EpisodeAudit]) -> float | None:
    """Evidence that the draws of several episodes together are another model's.

    Args:
        audits: Any of one model; those of greedy decoding say nothing here.

    Returns:
        Nats, against `EVIDENCE`; None without draws.
    """
    drawn = [audit.bets for audit in audits if audit.bets]
    if not drawn:
        return None
    sums = torch.tensor(drawn, dtype=torch.float64).sum(0)
    return float(sums.logsumexp(0)) - math.log(len(sums))


def too_many_unscored(audits: Sequence[EpisodeAudit]) -> bool:
    """Whether more turns than honest records have could not be scored: a lie about their lengths.

    Args:
        audits: Any of one model.
    """
    unscored = sum(audit.unscored for audit in audits)
    return unscored > MOST_UNSCORED * sum(audit.turns for audit in audits) + 1


def audit_run(
    run: ReadRun, model: "PreTrainedModel", chat: Chat, episodes: int, seed: int = 0
) -> Iterator[EpisodeAudit]:
    """Score some episodes of a run.

    Args:
        run: What was sent.
        model: The named weights.
        chat: Their tokenizer and template.
        episodes: How many; chosen at random.
        seed: Of the choice.

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
    """The whole episode where it is one sequence, else each turn whose tokens are known.

    What is longer than the model's context was not written by it.

    Returns:
        What is scored, and whether its tokens are those of the recorded prompts and responses.
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
    """Whether a sequence's tokens are the conversation that was shown and the responses in it.

    Texts are compared: a server may have split the same prompt into other tokens.
    """
    ids, written = sequence.token_ids, sequence.written
    if not len(written) == len(record.turns) == len(shown) or written[-1][1] != len(ids):
        return False
    if max(ids) >= len(chat.tokenizer):  # decoding would pass over it
        return False
    prompt = chat.render(shown[0], variables)
    for turn, ((start, stop), turned) in enumerate(zip(written, record.turns, strict=True)):
        drawn = chat.response(ids[:start], ids[start:stop])
        if chat.prompt_text(ids[:start]) != chat.prompt_text(prompt):
            return False
        if turn + 1 == len(written):
            return drawn == turned.response
        # The conversation keeps the beginning of a response; a cut may be within a character.
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
        # Of what the conversation did not keep, the tokens are not known.
        if turn.log_prob is not None and turn.response_tokens == stop - start:
            stated.append((here, turn.log_prob))
    return TokenPart(list(sequence.token_ids), chosen, tuple(stated))


def _turn_part(
    prompt: list[int], prompt_images: PromptImages | None, turn: TurnRecord, chat: Chat
) -> TokenPart | None:
    """One turn; None if its text was drawn as other tokens than those that it is encoded to."""
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
    """Nats per token that the stated log-probability of a response is off.

    Servers differ in whether they give that of the token that ended it, and of several it is not
    recorded which it was: the closest reading counts.
    """
    total = float(log_probs.sum())
    readings = [total, total - float(log_probs[-1:].sum())]
    readings += [total + float(end) for end in ends]
    return min(abs(reading - stated) for reading in readings) / max(len(log_probs), 1)
