"""Scores of response tokens under a model, with what rounding may change; see `audit.py`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from benchmark.engines.core.base import Sampling
from benchmark.engines.core.vision import PromptImages
from benchmark.engines.transformers.images import image_inputs, sampled_token

if TYPE_CHECKING:
    from transformers import PreTrainedModel

BETS = (0.125, 0.25, 0.5)
"""The b of `audit.py`: large ones see a few impossible tokens, small ones many unlikely ones."""
_ROWS = 128  # positions looked at at once: bounds the memory, moves no result


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What other batches, data types and machines may change.

    Attributes:
        gap: Nats that a token may be behind another one and count as equally likely.
        mass: Probability that a nucleus may hold beyond its limit.
        far: Share of an episode's tokens that may be none of those that could be chosen.
        off: Nats per token that recorded log-probabilities may be off.
    """

    gap: float
    mass: float
    far: float
    off: float


EXACT = Tolerance(gap=0.01, mass=0.001, far=0.0, off=0.001)
"""Where records and audit are both of float32."""
ROUGH = Tolerance(gap=0.5, mass=0.02, far=0.01, off=0.05)
"""Where one of them is not."""


@dataclass(frozen=True, slots=True)
class TokenPart:
    """What is given to the model at once.

    Attributes:
        ids: Token ids.
        chosen: Positions whose tokens the model is said to have chosen.
        stated: Responses whose log-probability is stated, each with the range of `chosen` that
            holds its tokens.
        ends: Tokens one of which ended the response after `ids`; nobody knows which.
        prompt_images: The images in `ids`; None without any.
    """

    ids: list[int]
    chosen: list[int]
    stated: tuple[tuple[slice, float], ...]
    ends: tuple[int, ...] = ()
    prompt_images: PromptImages | None = None


@dataclass(frozen=True, slots=True)
class TokenScores:
    """What a part comes to.

    Attributes:
        log_probs: (n,) log-probabilities of the chosen tokens, untempered.
        ends: (k,) those of the tokens that may have ended the response.
        far: How many of the chosen tokens could not have been chosen.
        bets: As of an episode.
    """

    log_probs: torch.Tensor
    ends: torch.Tensor
    far: int
    bets: tuple[float, ...]


def token_scores(
    part: TokenPart, model: "PreTrainedModel", sampling: Sampling, tolerance: Tolerance
) -> TokenScores:
    """Score the chosen tokens of a part in one forward pass.

    Args:
        part: What is given to the model.
        model: The named weights.
        sampling: How tokens were chosen.
        tolerance: What may differ.
    """
    tokens = torch.tensor([part.ids], device=model.device)
    begin = min(part.chosen, default=len(part.ids)) - 1
    with torch.inference_mode():
        kept = len(part.ids) - begin
        inputs = {"input_ids": tokens}
        if part.prompt_images is not None:
            placeholder, seen = part.prompt_images.image_token, tokens.clone()
            chosen = seen[0, part.chosen]
            seen[0, part.chosen] = chosen.where(chosen != placeholder, sampled_token(placeholder))
            inputs = image_inputs(model, seen, [part.prompt_images])
        logits = model(**inputs, logits_to_keep=kept).logits[0, -kept:]
    log_probs, far, bets = [torch.zeros(0, device=model.device)], 0, torch.zeros(len(BETS))
    for start in range(0, len(part.chosen), _ROWS):
        chosen = torch.tensor(part.chosen[start : start + _ROWS], device=model.device)
        rows, picked = logits[chosen - 1 - begin].double(), tokens[0, chosen][:, None]
        plain = rows.log_softmax(-1)
        here = plain.gather(1, picked)
        log_probs.append(here[:, 0])
        tempered = (rows / (sampling.temperature or 1.0)).log_softmax(-1)
        likelier = plain > here + tolerance.gap
        far += int(excluded_tokens(likelier, tempered.exp(), sampling, tolerance).sum())
        drawn = tempered.gather(1, picked)[:, 0]
        bets += torch.stack(
            [(-b * drawn - ((1 - b) * tempered).logsumexp(-1)).sum() for b in BETS]
        ).cpu()
    ends = logits[-1].double().log_softmax(-1)[list(part.ends)]
    staked = tuple(bets.tolist()) if sampling.temperature > 0 else ()
    return TokenScores(torch.cat(log_probs), ends, far, staked)


def excluded_tokens(
    likelier: torch.Tensor, shares: torch.Tensor, sampling: Sampling, tolerance: Tolerance
) -> torch.Tensor:
    """(n,) whether a token could not have been chosen.

    Args:
        likelier: (n, V) tokens that are clearly likelier than it.
        shares: (n, V) probabilities of all tokens, at the protocol's temperature.
        sampling: How tokens were chosen.
        tolerance: What may differ.
    """
    if sampling.temperature == 0:
        return likelier.any(-1)
    excluded = (shares * likelier).sum(-1) >= sampling.top_p + tolerance.mass
    if sampling.top_k:
        excluded |= likelier.sum(-1) >= sampling.top_k
    return excluded
