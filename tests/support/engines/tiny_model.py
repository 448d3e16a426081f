"""Builds a tiny language model with random weights: real files, no download.

The folder contains the files of a published checkpoint (configuration, generation configuration,
safetensors weights, a byte-level BPE tokenizer with a ChatML template), so that engines load it
like any other model. The same arguments produce the same files.
"""

import asyncio
import json
import random
from collections.abc import Sequence
from pathlib import Path

from benchmark.engines.core.base import Engine, Generation, Request, Sampling
from benchmark.hosts.inline import InlineEpisode
from tasks.registry import load_task

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TAGS = ("<think>", "</think>", "<action>", "</action>")
"""Added to the vocabulary as plain, non-special tokens: they stay in decoded text."""

CORPUS = (
    "You move a player on a grid. Push every box onto a target. Walls cannot be moved.\n",
    "The player stands at row 3, column 4; the box is at row 2, column 4. Move up or left.\n",
    "Think first, then name one action: up, down, left or right. It ends after 15 turns.\n",
    "#######\n#.  $ #\n# @   #\n#######\n",
    "user assistant system push pull go to cabinet 1 and take the mug from the shelf.\n",
)
VOCABULARY = 512
"""Maximum size; the short corpus has fewer merges."""


def make_tokenizer(folder: Path, chat_template: str | None = CHAT_TEMPLATE) -> int:
    """Train and save the tokenizer.

    Args:
        folder: Existing folder for its files.
        chat_template: None omits the template.

    Returns:
        The vocabulary size.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(TAGS),
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in TAGS])
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    wrapped.chat_template = chat_template
    wrapped.save_pretrained(folder)
    return len(wrapped)


def make_tiny_model(
    folder: Path,
    *,
    seed: int = 0,
    context: int = 1024,
    layers: int = 3,
    extra_stop_ids: Sequence[int] = (),
) -> Path:
    """Create a Qwen3 of about 330,000 random parameters with its tokenizer.

    Args:
        folder: Created if missing.
        seed: Seed of the weights.
        context: `max_position_embeddings`.
        layers: Number of decoder layers.
        extra_stop_ids: Further end-of-turn ids for `generation_config.json`. Random weights rarely
            sample the tokenizer's own, so tests of stopping list a share of the vocabulary.

    Returns:
        The folder.
    """
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = make_tokenizer(folder)
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=96,
        intermediate_size=208,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,  # vLLM on CPUs has no attention kernel for smaller heads
        max_position_embeddings=context,
        tie_word_embeddings=True,
        initializer_range=0.15,  # large enough that greedy decoding does not repeat a single token
        bos_token_id=None,
        eos_token_id=SPECIAL_TOKENS.index("<|im_end|>"),
        pad_token_id=SPECIAL_TOKENS.index("<|endoftext|>"),
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(config)
    model.save_pretrained(folder)
    stops = [SPECIAL_TOKENS.index("<|im_end|>"), *extra_stop_ids]
    generation = {"eos_token_id": stops, "pad_token_id": SPECIAL_TOKENS.index("<|endoftext|>")}
    (folder / "generation_config.json").write_text(json.dumps(generation), "utf-8")
    return folder


def fill_with_nan(folder: Path) -> Path:
    """Replace all weights of a model folder by NaN."""
    import torch
    from safetensors.torch import load_file, save_file

    file = folder / "model.safetensors"
    weights = {name: torch.full_like(each, torch.nan) for name, each in load_file(file).items()}
    save_file(weights, file, {"format": "pt"})
    return folder


def ask(text: str, sampling: Sampling, seed: int = 0) -> Request:
    """A request for a response to one user message, with a real episode that nobody plays."""
    task = load_task("sokoban")
    episode = task.episode(task.training_entry(0), task.training_max_turns)
    live = InlineEpisode(task, episode)
    return Request(({"role": "user", "content": text},), sampling, seed, 0, live)


async def answer_all(
    engine: Engine, prompts: Sequence[str], sampling: Sampling, seed: int = 0
) -> list[Generation]:
    """Answer all prompts at once, with seeds counted up from `seed`."""
    requests = [ask(prompt, sampling, number) for number, prompt in enumerate(prompts, seed)]
    return await asyncio.gather(*map(engine.generate, requests))


def mixed_prompts(count: int, seed: int = 0) -> list[str]:
    """Prompts of 1 to 60 words; two thirds share their first 25 words."""
    rng = random.Random(seed)
    words = " ".join(CORPUS).split()
    shared = " ".join(rng.choices(words, k=25))
    prompts = [" ".join(rng.choices(words, k=rng.randint(1, 60))) for _ in range(count)]
    return [f"{shared} {text}" if i % 3 else text for i, text in enumerate(prompts)]
