"""Tokenizers of tiny models: what may become one token, and that any text survives a round trip."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.cloning.tiny_models import TinyModelConfig, train_tokenizer

SHAPE: dict[str, Any] = {
    "vocab_size": 400,
    "hidden_size": 32,
    "layers": 1,
    "heads": 1,
    "kv_heads": 1,
    "head_dim": 32,
    "intermediate_size": 32,
    "context": 64,
}
TEXTS = ["######\n#_@$.#\n\ngo to shelf 12\ngo to shelf 3", "<action>go to shelf 12</action>"] * 20
PLAIN = train_tokenizer(TEXTS, TinyModelConfig(**SHAPE))
SHORT = train_tokenizer(TEXTS, TinyModelConfig(**SHAPE, symbol_runs=True))


def pieces(tokenizer: Any, text: str) -> list[str]:
    return [tokenizer.decode([token]) for token in tokenizer(text).input_ids]


def test_symbols_stay_apart_unless_a_recipe_joins_them() -> None:
    assert pieces(PLAIN, "#_@$.#\n") == ["#", "_", "@", "$", ".", "#", "\n"]
    assert pieces(SHORT, "######\n#_@$.#\n\n") == ["######\n", "#_@$.#\n\n"]


def test_digits_stay_apart() -> None:
    for tokenizer in (PLAIN, SHORT):
        assert pieces(tokenizer, " shelf 12") == [" shelf", " 1", "2"]


@pytest.mark.parametrize("tokenizer", [PLAIN, SHORT], ids=["plain", "short"])
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40))
def test_any_text_comes_back(tokenizer: Any, text: str) -> None:
    found = tokenizer(text, add_special_tokens=False).input_ids
    assert tokenizer.decode(found) == text
