"""A model next to its engine: random weight updates, and the model's own log-probabilities."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from benchmark.engines.core.base import Engine, Generation, Sampling
from tasks.registry import load_task
from tests.support.engines.tiny_model import ask


@dataclass
class Trainee:
    """A model in float32, as in a trainer.

    Attributes:
        model: The model.
        version: Version of its weights.
    """

    model: PreTrainedModel
    version: int = 0
    generator: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(0))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Load the model of a folder."""
        return cls(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval())

    @torch.no_grad()
    def perturb(self, scale: float = 0.2) -> None:
        """Add noise to every tensor, by default a fifth of its root mean square."""
        for tensor in self.model.parameters():
            noise = torch.randn(tensor.shape, generator=self.generator)
            tensor.add_(scale * tensor.square().mean().sqrt() * noise)
        self.version += 1

    async def hand_over(self, engine: Engine) -> None:
        """Send the current weights to the engine."""
        await engine.load_weights(self.model.state_dict().items(), self.version)

    @torch.no_grad()
    def log_probs(self, generation: Generation) -> torch.Tensor:
        """(response tokens,) log-probabilities of a response with the current weights."""
        assert generation.prompt_ids is not None and generation.response_ids is not None
        ids = torch.tensor([[*generation.prompt_ids, *generation.response_ids]])
        start = len(generation.prompt_ids) - 1
        rows = self.model(ids).logits[0, start:-1].double().log_softmax(-1)
        found: torch.Tensor = rows.gather(1, ids[0, start + 1 :, None])[:, 0]
        return found

    def gap(self, generation: Generation) -> float:
        """Largest difference between the engine's log-probabilities and the model's."""
        found = torch.tensor(generation.token_log_probs, dtype=torch.float64)
        return (found - self.log_probs(generation)).abs().max().item()

    def mean_k3(self, generations: Sequence[Generation]) -> float:
        """Mean over all tokens of r - 1 - ln r with r = p_model / p_engine (Schulman's k3)."""
        log_ratios = torch.cat(
            [
                self.log_probs(one) - torch.tensor(one.token_log_probs, dtype=torch.float64)
                for one in generations
            ]
        )
        return (log_ratios.expm1() - log_ratios).mean().item()


def random_prompt(length: int) -> tuple[int, ...]:
    """Token ids of the tiny model, without special tokens."""
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randint(8, 400, (length,), generator=generator).tolist())


async def answer_ids(
    engine: Engine, prompt: Sequence[int], sampling: Sampling, seed: int = 0
) -> Generation:
    """Answer a prompt of token ids."""
    return await engine.generate(replace(ask("", sampling, seed), prompt_ids=tuple(prompt)))


TINY_SOKOBAN = Path(__file__).parents[4] / "baselines" / "inits" / "tiny-sokoban"


async def sokoban_responses(engine: Engine, count: int) -> list[Generation]:
    """Responses to the first prompts of `count` training episodes, sampled at temperature 1."""
    task = load_task("sokoban")
    sampling = Sampling(temperature=1.0, max_tokens=48)
    requests = []
    for seed in range(count):
        episode = task.episode(task.training_entry(seed), task.training_max_turns)
        request = ask("", sampling, seed)
        requests.append(replace(request, messages=episode.reset().messages))
    return await asyncio.gather(*map(engine.generate, requests))
