"""Scores response tokens under a model, with tolerance for rounding errors; see `audit.py`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from benchmark.engines.core.base import Sampling
from benchmark.engines.core.vision import PromptImages
from benchmark.engines.transformers.images import image_inputs, sampled_token

if TYPE_CHECKING:
    from transformers import PreTrainedModel

BETS = (0.125, 0.25, 0.5)
"""Values of b in `audit.py`: large ones detect few impossible tokens, small ones many unlikely
ones."""
_ROWS = 128  # positions per batch: bounds memory and does not affect results


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Tolerance for other batches, data types and machines.

    Attributes:
        gap: Nats by which a token may be less likely than another and still count as a tie.
        mass: Probability by which a nucleus may exceed its limit.
        far: Maximum share of an episode's tokens that could not have been chosen.
        off: Maximum error of recorded log-probabilities, in nats per token.
    """

    gap: float
    mass: float
    far: float
    off: float


EXACT = Tolerance(gap=0.01, mass=0.001, far=0.0, off=0.001)
"""Tolerance if both records and audit are in float32."""
ROUGH = Tolerance(gap=0.5, mass=0.02, far=0.01, off=0.05)
"""Tolerance if either is not in float32."""


@dataclass(frozen=True, slots=True)
class TokenPart:
    """Input of one forward pass.

    Attributes:
        ids: Token ids.
        chosen: Positions of the tokens that the model supposedly chose.
        stated: Stated log-probabilities of responses, each with the range of `chosen` that contains
            the response's tokens.
        ends: Candidates for the stop token after `ids`, if there are several.
        prompt_images: The images in `ids`; None if there are none.
    """

    ids: list[int]
    chosen: list[int]
    stated: tuple[tuple[slice, float], ...]
    ends: tuple[int, ...] = ()
    prompt_images: PromptImages | None = None


@dataclass(frozen=True, slots=True)
class TokenScores:
    """Scores of a part.

    Attributes:
        log_probs: (n,) log-probabilities of the chosen tokens at temperature 1.
        ends: (k,) log-probabilities of the possible stop tokens.
        far: How many of the chosen tokens could not have been chosen.
        bets: As in `EpisodeAudit`, for this part.
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
        part: Input of the model.
        model: The named weights.
        sampling: How tokens were chosen.
        tolerance: The tolerance.
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
    """(n,) whether each token could not have been chosen.

    Args:
        likelier: (n, V) whether a token of the vocabulary is clearly likelier than the chosen one.
        shares: (n, V) probabilities of all tokens, at the protocol's temperature.
        sampling: How tokens were chosen.
        tolerance: The tolerance.
    """
    if sampling.temperature == 0:
        return likelier.any(-1)
    excluded = (shares * likelier).sum(-1) >= sampling.top_p + tolerance.mass
    if sampling.top_k:
        excluded |= likelier.sum(-1) >= sampling.top_k
    return excluded
