"""Messages to token ids and back, with the tokenizer and chat template of a model folder.

Model folders are untrusted: no remote code runs, and weights are read from safetensors only.
Nothing here imports torch; `transformers` is imported when a tokenizer is loaded.
"""

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from benchmark.engines.core.vision import PROCESSOR, PromptImages, Vision, vision_of
from benchmark.model_files import check_own_files, read_json
from tasks.chat.messages import Message, images_of, text_of
from tasks.errors import UserError
from tasks.texts import first_line

TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "spiece.model", "tekken.json")
PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt")

NO_KWARGS: Final[Mapping[str, Any]] = MappingProxyType({})
MAX_TEMPLATE: Final = 2**18
"""Maximum characters; templates with tools have around ten thousand."""
OPENED: Final = re.compile(r"<think>\s*\Z")
"""A reasoning block that the prompt has opened."""
_LAST_TOKENS: Final = 16
"""Last tokens of a prompt that contain such a tag in any tokenizer, with a margin."""


def check_folder(folder: Path) -> None:
    """Check that a folder contains a model that may be loaded.

    Raises:
        UserError: It is not a folder, the model needs files outside the hash
            (`check_own_files`), or there is no `config.json`, no safetensors weights (pickle
            weights are refused), no tokenizer, or a shard of the index is missing.
    """
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder; --model needs a folder, an init or a hub id")
    check_own_files(folder)
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder} has no config.json: it is not a model folder")
    _check_weights(folder)
    if not any((folder / name).is_file() for name in TOKENIZER_FILES):
        raise UserError(
            f"{folder} has no tokenizer (none of {', '.join(TOKENIZER_FILES)}); "
            "copy the tokenizer files of the base model into it"
        )


def _check_weights(folder: Path) -> None:
    if not any(folder.glob("*.safetensors")):
        pickles = sorted(p.name for p in folder.iterdir() if p.suffix in PICKLE_SUFFIXES)
        if pickles:
            raise UserError(
                f"{folder} has only pickle weights ({pickles[0]}); loading a pickle "
                "can run arbitrary code; convert them with save_pretrained(..., "
                "safe_serialization=True)"
            )
        raise UserError(f"{folder} has no weights: no *.safetensors file")
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(v, str) for v in weight_map.values()):
        raise UserError(f"{index} has no weight_map of names to files; download the model again")
    for shard in sorted(set(weight_map.values())):
        if Path(shard).name != shard or not (folder / shard).is_file():
            raise UserError(f"{folder} lacks the weights file {shard!r}; download the model again")


def quiet_transformers() -> None:
    """Keep transformers' warnings and progress bars off the terminal; errors stay."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


@dataclass(frozen=True, slots=True)
class Chat:
    """The text side of a model.

    Not safe for use from several threads at once: tokenizers keep state while they encode.

    Attributes:
        tokenizer: The folder's tokenizer.
        stop_ids: Token ids that end a turn: `eos_token_id` of `generation_config.json` and the
            tokenizer's own.
        folder: The model's folder, for its image processor; None if there is none yet.
        new_vision: Reads images for a model that has no folder yet; None for text only.
    """

    tokenizer: Any
    stop_ids: frozenset[int]
    folder: Path | None = None
    new_vision: Vision | None = None

    @classmethod
    def load(cls, folder: Path) -> "Chat":
        """Load the tokenizer of a model folder.

        Raises:
            UserError: The folder is not a usable model (see `check_folder`), its tokenizer cannot
                be loaded, or it has no chat template, an enormous one, or no end-of-turn token.
        """
        check_folder(folder)
        quiet_transformers()
        from transformers import AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
        except Exception as error:  # the library raises a dozen types for broken files
            raise UserError(
                f"the tokenizer in {folder} cannot be loaded: {first_line(error)}"
            ) from error
        if not tokenizer.chat_template:
            raise UserError(
                f"the tokenizer in {folder} has no chat template (chat_template.jinja or "
                "chat_template in tokenizer_config.json); use a chat model or add its template"
            )
        if len(str(tokenizer.chat_template)) > MAX_TEMPLATE:
            raise UserError(
                f"the chat template of {folder} has more than {MAX_TEMPLATE:,} characters"
            )
        stop_ids = _stop_ids(folder, tokenizer.eos_token_id)
        if not stop_ids:
            raise UserError(
                f"{folder} has no end-of-turn token (eos_token_id in "
                "generation_config.json or eos_token in tokenizer_config.json); "
                "responses would never end"
            )
        return cls(tokenizer, stop_ids, folder)

    def reads_as(self, other: "Chat") -> bool:
        """Whether both turn messages into the same tokens, and tokens into the same text."""
        mine, theirs = self.tokenizer, other.tokenizer
        return (
            mine.chat_template == theirs.chat_template
            and self.stop_ids == other.stop_ids
            and mine.backend_tokenizer.to_str() == theirs.backend_tokenizer.to_str()
        )

    def render(
        self, messages: Sequence[Message], template_kwargs: Mapping[str, Any] = NO_KWARGS
    ) -> list[int]:
        """Token ids of a prompt: the messages in the chat template, with the generation prompt.

        Args:
            messages: The prompt.
            template_kwargs: Variables for the template.

        Raises:
            UserError: The model's template does not accept these messages or variables, or the
                model cannot read an image in them.
        """
        return self.read(messages, template_kwargs)[0]

    def read(
        self, messages: Sequence[Message], template_kwargs: Mapping[str, Any] = NO_KWARGS
    ) -> tuple[list[int], PromptImages | None]:
        """Token ids of a prompt as from `render`, and its images; None without any.

        Raises:
            UserError: See `render`.
        """
        images = images_of(messages)
        vision = self.vision() if images else None
        bare_ids = self._encode(self._text(messages, template_kwargs))
        return (bare_ids, None) if vision is None else vision.look(bare_ids, images)

    def placed(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of a prompt as from `render`; images are measured, but not read.

        Raises:
            UserError: See `render`.
        """
        images = images_of(messages)
        vision = self.vision() if images else None
        bare_ids = self._encode(self._text(messages, NO_KWARGS))
        return bare_ids if vision is None else vision.write_out(bare_ids, images)

    def vision(self) -> Vision:
        """The image processor.

        Raises:
            UserError: The model reads only text; see `vision_of`.
        """
        if self.new_vision is not None:
            return self.new_vision
        if self.folder is None:
            raise UserError("the prompt has an image, and only the model's tokenizer is known")
        return vision_of(self.folder)

    def save(self, folder: Path) -> None:
        """Write the tokenizer, and the image processor if there is one, to a model folder."""
        # As files, several templates would need their own folder.
        flat = isinstance(self.tokenizer.chat_template, str)
        self.tokenizer.save_pretrained(folder, save_jinja_files=flat)
        if self.new_vision is not None:
            self.new_vision.processor.save_pretrained(folder)
        elif self.folder is not None and (self.folder / PROCESSOR).is_file():
            (folder / PROCESSOR).write_bytes((self.folder / PROCESSOR).read_bytes())

    def continue_conversation(
        self,
        prompt_ids: Sequence[int],
        response_ids: Sequence[int],
        messages: Sequence[Message],
        template_kwargs: Mapping[str, Any] = NO_KWARGS,
    ) -> list[int]:
        """Token ids of a prompt that continues a response without changing its ids.

        The response is not retokenized, and no template removes its reasoning: the whole
        conversation is one sequence.

        Args:
            prompt_ids: The prompt of the response.
            response_ids: The response.
            messages: The conversation: the second to last message is the response or its beginning,
                the last one the environment's reply.
            template_kwargs: Variables for the template.

        Returns:
            The prompt, the fewest tokens of the response that contain the kept text, and the
            template's text after it.

        Raises:
            UserError: See `render`; or the template does not show the response exactly once, or
                there are images: a conversation of one sequence has only text.
        """
        if images_of(messages):
            raise UserError("a conversation of one sequence cannot have images")
        kept = text_of(messages[-2])
        mark = _mark(messages)
        stand_in = Message(role="assistant", content=mark)
        shown = self._text([*messages[:-2], stand_in, messages[-1]], template_kwargs)
        before, found, after = shown.partition(mark)
        if not found or mark in after or not before:
            raise UserError(
                "the model's chat template does not render a response exactly once and unchanged"
            )
        kept = kept[len(self.opened(prompt_ids)) :]
        return [*prompt_ids, *self._beginning(response_ids, kept), *self._encode(after)]

    def opened(self, prompt_ids: Sequence[int]) -> str:
        """The `<think>` at the end of a prompt, with the whitespace after it; usually empty.

        Templates of models that always reason write the tag themselves. It belongs to the response:
        the model continues from it and writes no other.
        """
        found = OPENED.search(self.prompt_text(prompt_ids[-_LAST_TOKENS:]))
        return found[0] if found else ""

    def response(self, prompt_ids: Sequence[int], response_ids: Sequence[int]) -> str:
        """A response as the environment sees it: the prompt's opened tag, then the model's text.

        Args:
            prompt_ids: The prompt.
            response_ids: The tokens that the model sampled.
        """
        return self.opened(prompt_ids) + self.decode(response_ids)

    def prompt_text(self, prompt_ids: Sequence[int]) -> str:
        """The text of a prompt, special tokens included."""
        text: str = self.tokenizer.decode(list(prompt_ids), clean_up_tokenization_spaces=False)
        return text

    def _beginning(self, response_ids: Sequence[int], text: str) -> Sequence[int]:
        """The fewest tokens of a response that contain the given beginning of its text."""
        ids = list(response_ids)
        if ids and ids[-1] in self.stop_ids:
            ids.pop()
        low, high = 0, len(ids)
        while low < high:  # the text of more tokens is almost never shorter
            middle = (low + high) // 2
            if len(self.decode(ids[:middle])) >= len(text):
                high = middle
            else:
                low = middle + 1
        if self.decode(ids[:low]).startswith(text):
            return ids[:low]
        # It ends inside a character of several tokens, or a partial one decodes to a longer text.
        whole = (n for n in range(len(ids) + 1) if self.decode(ids[:n]).startswith(text))
        return ids[: next(whole, len(ids))]

    def _text(self, messages: Sequence[Message], template_kwargs: Mapping[str, Any]) -> str:
        import jinja2

        apply = self.tokenizer.apply_chat_template
        if template_kwargs:
            _check_variables(template_kwargs, inspect.signature(apply).parameters)
        try:
            text: str = apply(
                list(messages), tokenize=False, add_generation_prompt=True, **template_kwargs
            )
        except jinja2.TemplateError as error:
            raise UserError(
                f"the model's chat template rejects the prompt: {first_line(error)}"
            ) from error
        except Exception as error:  # a template is a program: it can fail in any way
            raise UserError(
                "the model's chat template cannot render the prompt: "
                f"{type(error).__name__}: {first_line(error)}"
            ) from error
        return text

    def _encode(self, text: str) -> list[int]:
        # The template has written all special tokens, including the first one.
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        ids: list[int]
        if backend is None or backend.truncation or backend.padding:
            ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        else:  # the same, a third faster: no offsets are computed
            ids = backend.encode_batch_fast([text], add_special_tokens=False)[0].ids
        return ids

    def decode(self, response_ids: Sequence[int]) -> str:
        """Text of a response as the environment sees it.

        The end-of-turn token and all special tokens are removed; added tokens that are not special
        (such as `<think>`) stay.
        """
        ids = list(response_ids)
        if ids and ids[-1] in self.stop_ids:
            ids.pop()
        text: str = self.tokenizer.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text


def _check_variables(template_kwargs: Mapping[str, Any], taken: Iterable[str]) -> None:
    """Refuse variables that clash with parameters of transformers' own function."""
    if clash := sorted(set(template_kwargs) & set(taken)):
        raise UserError(
            f"chat template variable {clash[0]!r}: the name is that of a setting of transformers; "
            "remove it from --chat-template-kwargs"
        )


def _mark(messages: Sequence[Message]) -> str:
    """A placeholder text, in no message, for locating what a template writes after a response."""
    text = "".join(map(text_of, messages))
    return next(mark for n in count() if (mark := f"[[response {n}]]") not in text)


def _stop_ids(folder: Path, tokenizer_eos: int | None) -> frozenset[int]:
    generation = folder / "generation_config.json"
    source = generation if generation.is_file() else folder / "config.json"
    named = read_json(source).get("eos_token_id")
    ids = named if isinstance(named, list) else [named]
    found = [i for i in [*ids, tokenizer_eos] if i is not None]
    if not all(isinstance(i, int) and i >= 0 for i in found):
        raise UserError(f"{source}: eos_token_id must be a token id or a list of them")
    return frozenset(found)
