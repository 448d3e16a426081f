"""New models small enough for a CPU: a Qwen3 network with its own byte-level BPE tokenizer.

With `vision`, `tiny_vision` makes a Qwen3-VL network of the same shape with a vision encoder.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

END_OF_TEXT = "<|endoftext|>"
TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"
TAGS = ("<think>", "</think>", "<action>", "</action>")

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


class TinyVisionConfig(BaseModel):
    """Shape of a new model's vision encoder: patches, attention among them, merging into tokens.

    Attributes:
        patch: Side length of a patch, in pixels.
        merge: Side length of the square of patches that becomes one token. With 32 pixels and 2, a
            token is a cell of Sokoban.
        side: Patches per row and column of the intended images. Each has its own position
            embedding; images of another size get interpolated ones.
        hidden_size: Width of a patch embedding.
        layers: Number of layers.
        heads: Number of attention heads; on a CPU, vLLM needs each to be at least 32 wide.
        intermediate_size: Width of the feed-forward layer.
        frozen: Cloning does not train its weights. At the learning rate of the rest, a new encoder
            first learns to give the same output for all images, and stays there for a long time.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    patch: int = Field(gt=0)
    merge: int = Field(gt=0)
    side: int = Field(gt=0)
    hidden_size: int = Field(gt=0)
    layers: int = Field(gt=0)
    heads: int = Field(gt=0)
    intermediate_size: int = Field(gt=0)
    frozen: bool = False


class TinyModelConfig(BaseModel):
    """Shape of a new model.

    Attributes:
        vocab_size: Tokens of the tokenizer, including 256 bytes and special tokens; those for
            images are added to it.
        symbol_runs: Adjacent symbols (a row of a board, a comma and what follows it) may become one
            token, and so may the line breaks after them. This makes prompts shorter.
        hidden_size: Width.
        layers: Number of layers.
        heads: Number of query heads.
        kv_heads: Number of key and value heads.
        head_dim: Width of a head; vLLM on a CPU needs at least 32.
        intermediate_size: Width of the gated feed-forward layer.
        context: Maximum sequence length, in tokens.
        vision: Its vision encoder; None for a text-only model.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    vocab_size: int = Field(ge=300)
    symbol_runs: bool = False
    hidden_size: int = Field(gt=0)
    layers: int = Field(gt=0)
    heads: int = Field(gt=0)
    kv_heads: int = Field(gt=0)
    head_dim: int = Field(gt=0)
    intermediate_size: int = Field(gt=0)
    context: int = Field(gt=0)
    # Left out if unset: cloning checkpoints identify their recipe by a hash of all of it.
    vision: TinyVisionConfig | None = Field(None, exclude_if=lambda vision: vision is None)


def train_tokenizer(texts: Iterable[str], config: TinyModelConfig) -> "PreTrainedTokenizerFast":
    """Train a byte-level BPE tokenizer that can encode any text.

    Words, names such as r3c2 and single digits include the space before them. All other symbols
    stay single tokens unless `config.symbol_runs` joins them, so that a cell of a drawn board is
    one token at any position.

    Args:
        texts: Texts like those that it will encode.
        config: Its size, and whether to join symbols.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    special = [END_OF_TEXT, TURN_START, TURN_END]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_pieces(config)), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocab_size - len(TAGS),
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens(list(TAGS))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=TURN_END,
        pad_token=END_OF_TEXT,
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=config.context,
    )


def _pieces(config: TinyModelConfig) -> str:
    """Regular expression of the pieces that tokens cannot cross."""
    pieces = [r" ?\p{L}[\p{L}\p{N}]*", r" ?\p{N}"]
    if config.symbol_runs:
        pieces += [r" ?[^\p{L}\p{N}\s]+\n*", r"\n+"]
    return "|".join([*pieces, r"[^\p{L}\p{N}]"])


def text_shape(config: TinyModelConfig, tokenizer: "PreTrainedTokenizerFast") -> dict[str, Any]:
    """Configuration of a new model for Qwen3 and for the text part of Qwen3-VL."""
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "intermediate_size": config.intermediate_size,
        "max_position_embeddings": config.context,
        # The usual 0.02 suits wide layers; in narrow ones it starves attention, and cloning then
        # stays on a plateau for hundreds of steps.
        "initializer_range": config.hidden_size**-0.5,
        "tie_word_embeddings": True,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": None,
    }


def new_model(
    config: TinyModelConfig, tokenizer: "PreTrainedTokenizerFast", seed: int
) -> "Qwen3ForCausalLM":
    """Make a Qwen3 model with random weights in float32 from a seed."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    model = Qwen3ForCausalLM(Qwen3Config(**text_shape(config, tokenizer)))
    # Greedy by default, so that users of other programs get the model's best guess.
    model.generation_config.do_sample = False
    return model
