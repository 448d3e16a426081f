"""Would the named model have said that? Recorded responses, scored under its weights.

A replay shows that actions earn their rewards, not who chose them. With the weights at hand, a few
episodes can be looked at: each recorded token is given to the model after everything before it
(teacher forcing), and is held against what the model would rather have said.

- Greedy decoding takes the likeliest token. `gap` is the log-probability of the likeliest token
  minus that of the recorded one: 0, or near it where two are almost equally likely.
- Draws are surprising now and then. `z` is the sum over tokens of `log p + H` (H: entropy of the
  next token, both at the protocol's temperature), divided by the square root of the sum of its
  variances: a standard normal number for what was drawn, and far below for what another model
  wrote. Nucleus and top-k leave out unlikely tokens, which only raises it.

What this cannot see: a better policy with weights that were trained to say the same words.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from benchmark.engines.chat import Chat
from benchmark.records import EpisodeRecord
from benchmark.replay import installed_panel, replay_record
from benchmark.submissions.entry import ReadRun
from tasks.seeding import stable_seed

if TYPE_CHECKING:
    from transformers import PreTrainedModel

GAP = 0.5
"""Nats by which a greedily chosen token may be behind the likeliest one: other batches, data types
and machines move log-probabilities by hundredths."""
FAR = 0.01
"""Share of an episode's tokens that may be further behind."""
Z = -4.0
"""Lowest credible `z` of an episode."""
Tokens = tuple[list[int], list[int]]
"""Token ids, and the positions whose tokens the model is said to have chosen."""


@dataclass(frozen=True, slots=True)
class EpisodeAudit:
    """One episode under the named model.

    Attributes:
        key: Which one: task, panel, episode, repeat.
        tokens: Tokens that were scored.
        log_prob: Sum of their log-probabilities, untempered.
        recorded: The same as the record has it; None if it does not.
        far: Share of the tokens with a gap above `GAP`.
        z: See above; None for greedy decoding.
        credible: The model may have said it.
    """

    key: tuple[str, str, str, int]
    tokens: int
    log_prob: float
    recorded: float | None
    far: float
    z: float | None
    credible: bool


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
    """
    playable = [record for record in run.records if record.turns]
    chosen = random.Random(stable_seed("audit", run.path, seed)).sample(
        playable, min(episodes, len(playable))
    )
    for record in chosen:
        protocol = run.manifest.panel(record.task, record.panel)
        temperature = protocol.sampling.temperature
        parts = list(_parts(record, run, chat))
        yield _audit(record, parts, model, temperature)


def _parts(record: EpisodeRecord, run: ReadRun, chat: Chat) -> Iterator[Tokens]:
    """What is given to the model: the whole episode where it is one sequence, else each turn."""
    if record.sequence is not None:
        ids = list(record.sequence.token_ids)
        yield ids, [at for at, drawn in enumerate(record.sequence.response_mask) if drawn]
        return
    protocol = run.manifest.panel(record.task, record.panel)
    task, panel = installed_panel(protocol)
    (entry,) = (entry for entry in panel.entries if entry.id == record.episode)
    replay = replay_record(record, protocol, task, entry)
    view = replay.start
    for turn, step in zip(record.turns, replay.steps, strict=False):
        assert view is not None
        prompt = chat.render(view.messages)
        response = chat.tokenizer.encode(turn.response, add_special_tokens=False)
        end = [min(chat.stop_ids)] if turn.finish_reason == "stop" else []
        ids = [*prompt, *response, *end]
        # Which of several ends was drawn is not recorded: it is scored only where there is one.
        scored = len(ids) - (len(end) if len(chat.stop_ids) > 1 else 0)
        yield ids, list(range(len(prompt), scored))
        view = step.view


def _audit(
    record: EpisodeRecord,
    parts: Sequence[Tokens],
    model: "PreTrainedModel",
    temperature: float,
) -> EpisodeAudit:
    log_prob = surprise = variance = 0.0
    count = far = 0
    for ids, chosen in parts:
        found = _scores(ids, chosen, model, temperature or 1.0)
        log_prob += float(found.log_probs.sum())
        far += int((found.gaps > GAP).sum())
        count += len(chosen)
        surprise += float(found.surprises.sum())
        variance += float(found.variances.sum())
    greedy = temperature == 0
    z = None if greedy else surprise / math.sqrt(variance) if variance > 0 else 0.0
    recorded = [turn.log_prob for turn in record.turns]
    known = [value for value in recorded if value is not None]
    share = far / count if count else 0.0
    return EpisodeAudit(
        key=record.key,
        tokens=count,
        log_prob=log_prob,
        recorded=math.fsum(known) if len(known) == len(recorded) else None,
        far=share,
        z=z,
        credible=share <= FAR if z is None else z >= Z,
    )


@dataclass(frozen=True, slots=True)
class _Scores:
    """(n,) of each chosen token: log-probability, gap, and `log p + H` with its variance."""

    log_probs: torch.Tensor
    gaps: torch.Tensor
    surprises: torch.Tensor
    variances: torch.Tensor


def _scores(
    ids: Sequence[int], chosen: Sequence[int], model: "PreTrainedModel", temperature: float
) -> _Scores:
    tokens = torch.tensor([ids], device=model.device)
    with torch.inference_mode():
        logits = model(input_ids=tokens).logits[0].double()
    before = torch.tensor([at - 1 for at in chosen], device=model.device)
    picked = tokens[0, torch.tensor(list(chosen), device=model.device)]
    plain = logits[before].log_softmax(-1)
    tempered = (logits[before] / temperature).log_softmax(-1)
    entropies = -(tempered.exp() * tempered).sum(-1)
    squares = (tempered.exp() * tempered**2).sum(-1)
    log_probs = plain.gather(1, picked[:, None])[:, 0]
    drawn = tempered.gather(1, picked[:, None])[:, 0]
    return _Scores(
        log_probs,
        plain.max(-1).values - log_probs,
        drawn + entropies,
        (squares - entropies**2).clamp(min=0),
    )
