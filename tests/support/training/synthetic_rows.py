"""Synthetic ragged rows of a rollout, and a small random model in float64."""

import random

import numpy as np
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from baselines.rollouts.rows import Row

VOCABULARY = 90


def random_model(seed: int = 0) -> Qwen3ForCausalLM:
    """A two-layer network in float64 whose predictions are far from uniform."""
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=12,
        intermediate_size=32,
        max_position_embeddings=256,
        initializer_range=0.2,
        tie_word_embeddings=True,
    )
    return Qwen3ForCausalLM(config).double()


def random_rows(count: int, seed: int = 0) -> list[Row]:
    """Rows of groups of four episodes of three turns, with lengths of one token or more.

    All prompts begin with the same 40 tokens.

    Args:
        count: Number of rows.
        seed: Seed of all random numbers.
    """
    rng = random.Random(seed)
    beginning = [rng.randrange(VOCABULARY) for _ in range(40)]
    rows = []
    for number in range(count):
        prompt = beginning + [rng.randrange(VOCABULARY) for _ in range(rng.randint(1, 20))]
        response = [rng.randrange(VOCABULARY) for _ in range(rng.choice([1, 2, 5, 9]))]
        mask = [1] * len(response)
        if len(response) > 4 and number % 3 == 0:
            mask[2] = mask[3] = 0  # environment text in between
        rows.append(
            Row(
                task="sokoban",
                group=number // 12,
                member=number // 3 % 4,
                turn=number % 3,
                prompt_ids=np.array(prompt, np.int32),
                response_ids=np.array(response, np.int32),
                response_mask=np.array(mask, np.int32),
                engine_log_probs=np.array([-rng.random() for _ in response], np.float32),
                versions=(0, 0),
                reward=rng.choice([0.0, 1.0, 10.9]),
                penalty=rng.choice([0.0, 0.1]),
                step_reward=rng.choice([-0.1, 1.0]),
                anchor=rng.choice(["a", "b", "c"]),
                success=rng.random() < 0.5,
            )
        )
    return rows
