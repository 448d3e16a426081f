"""FLOPs of an update, by hand."""

import numpy as np
import pytest
from transformers import Qwen3Config

from baselines.rollouts.rows import Row
from baselines.training.speed import speed_metrics, step_flops


def row(prompt: int, response: int) -> Row:
    ids, ones = np.zeros(prompt, np.int32), np.ones(response, np.int32)
    logs = np.zeros(response, np.float32)
    return Row("sokoban", 0, 0, 0, ids, ones, ones, logs, (0, 0), 0.0, 0.0, 0.0, "", False)


@pytest.mark.parametrize(("tied", "parameters"), [(True, 1_000 + 200), (False, 1_000 + 400)])
def test_products_and_attention_are_counted(tied: bool, parameters: int) -> None:
    config = Qwen3Config(
        vocab_size=20,
        hidden_size=10,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        num_hidden_layers=3,
        tie_word_embeddings=tied,
    )
    # 12 tokens pass through 1,000 parameters, 5 through the last layer's 200; 3 layers of width 16.
    by_hand = 6 * (1_000 * 12 + 200 * 5 + 3 * 16 * (25 + 49))
    assert step_flops(config, parameters, [row(3, 2), row(4, 3)], 1) == by_hand
    assert step_flops(config, parameters, [row(3, 2), row(4, 3)], 2) == 2 * by_hand
    # A critic has all but the last layer, and is trained fully even with a frozen policy.
    critic = 6 * (1_000 * 12 + 3 * 16 * (25 + 49))
    both = step_flops(config, parameters, [row(3, 2), row(4, 3)], 1, critic=True)
    assert both == by_hand + critic
    frozen = 4 * (1_000 * 12 + 200 * 5) + 6 * 3 * 16 * (25 + 49)
    both = step_flops(config, parameters, [row(3, 2), row(4, 3)], 1, frozen=True, critic=True)
    assert both == frozen + critic


def test_a_share_of_what_the_gpu_can_do() -> None:
    found = speed_metrics(989e12 * 4, 5.0, 2, "NVIDIA H100 80GB HBM3")
    assert found == {"speed/tflops": pytest.approx(395.6), "speed/mfu": pytest.approx(0.4)}
    assert speed_metrics(1e12, 2.0, 1, None) == {"speed/tflops": 0.5, "speed/mfu": None}
    assert speed_metrics(756e12, 1.0, 1, "NVIDIA H100 PCIe")["speed/mfu"] == 1
    assert speed_metrics(0.0, 1.0, 1, None) == speed_metrics(1.0, None, 1, None) == {}
