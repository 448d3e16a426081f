"""From prompts to token ids and back, and the one-line errors for unusable model folders."""

import json
import shutil
from pathlib import Path

import pytest

from benchmark.engines.core.chat import MAX_TEMPLATE, Chat
from tasks.chat.messages import Message
from tasks.errors import UserError
from tests.support.engines.tiny_model import SPECIAL_TOKENS, make_tiny_model, make_tokenizer

MESSAGES: tuple[Message, ...] = (
    {"role": "system", "content": "Push the box."},
    {"role": "user", "content": "#@$.#\nWhich way? \N{SNOWMAN}"},
)
START, END = SPECIAL_TOKENS.index("<|im_start|>"), SPECIAL_TOKENS.index("<|im_end|>")


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("models") / "tiny", extra_stop_ids=(7, 9))


@pytest.fixture
def folder(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "model"))


def test_prompt_is_the_template_with_generation_prompt(pristine: Path) -> None:
    chat = Chat.load(pristine)
    ids = chat.render(MESSAGES)
    assert chat.tokenizer.decode(ids) == (
        "<|im_start|>system\nPush the box.<|im_end|>\n"
        "<|im_start|>user\n#@$.#\nWhich way? \N{SNOWMAN}<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert ids.count(START) == 3
    assert ids.count(END) == 2


def test_prompt_is_what_transformers_makes_of_it(pristine: Path) -> None:
    chat = Chat.load(pristine)
    expected = chat.tokenizer.apply_chat_template(list(MESSAGES), add_generation_prompt=True)
    assert chat.render(MESSAGES) == expected["input_ids"]


RESPONSE = "<think>add</think>\n```python\nprint(1+1)\n```"
ASKED: tuple[Message, ...] = ({"role": "user", "content": "How much?"},)


def continue_conversation(chat: Chat, drawn: list[int], kept: str) -> tuple[list[int], list[int]]:
    """A first prompt, and the next one after a response to it."""
    first = chat.render(ASKED)
    answered: Message = {"role": "assistant", "content": kept}
    said: Message = {"role": "user", "content": "Output:\n2"}
    return first, chat.continue_conversation(first, drawn, (*ASKED, answered, said))


def test_a_conversation_goes_on_from_its_own_tokens(pristine: Path) -> None:
    chat = Chat.load(pristine)
    # One letter per token, which the tokenizer itself would not produce.
    drawn = [i for letter in RESPONSE for i in chat.tokenizer(letter)["input_ids"]]
    assert drawn != chat.tokenizer(RESPONSE)["input_ids"]
    first, second = continue_conversation(chat, [*drawn, END], RESPONSE)
    assert second[: len(first) + len(drawn)] == [*first, *drawn]
    assert chat.tokenizer.decode(second) == (
        "<|im_start|>user\nHow much?<|im_end|>\n<|im_start|>assistant\n"
        f"{RESPONSE}<|im_end|>\n<|im_start|>user\nOutput:\n2<|im_end|>\n<|im_start|>assistant\n"
    )


def test_no_text_is_taken_for_the_place_of_the_response(pristine: Path) -> None:
    chat = Chat.load(pristine)
    first = chat.render(ASKED)
    said: Message = {"role": "user", "content": "[[response 0]] [[response 1]]"}
    answered: Message = {"role": "assistant", "content": "2"}
    drawn = chat.tokenizer("2")["input_ids"]
    second = chat.tokenizer.decode(
        chat.continue_conversation(first, drawn, (*ASKED, answered, said))
    )
    assert "assistant\n2<|im_end|>\n<|im_start|>user\n[[response 0]] [[response 1]]<|im" in second


def test_what_was_written_after_the_kept_text_is_left_out(pristine: Path) -> None:
    chat = Chat.load(pristine)
    ids = chat.tokenizer(RESPONSE)["input_ids"]
    more = chat.tokenizer("\nOutput:\n3")["input_ids"]
    first, second = continue_conversation(chat, [*ids, *more, END], RESPONSE)
    assert second[len(first) : len(first) + len(ids) + 1] == [*ids, END]


def test_a_kept_text_may_end_in_a_character_of_several_tokens(pristine: Path) -> None:
    chat = Chat.load(pristine)
    for kept in ("x \u2264", "3\u00b2", "# \U0001f389\U0001f389\U0001f389\n```"):
        ids = chat.tokenizer(kept)["input_ids"]
        assert len(ids) > len(kept) - 2
        more = chat.tokenizer("\nOutput")["input_ids"]
        first, second = continue_conversation(chat, [*ids, *more, END], kept)
        assert second[len(first) : len(first) + len(ids) + 1] == [*ids, END]


def test_a_template_that_takes_reasoning_out_takes_nothing_out(folder: Path) -> None:
    stripping = (
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}"
        "{{ m.content.split('</think>')[-1] + '<|im_end|>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
    )
    chat = Chat.load(folder)
    chat.tokenizer.chat_template = stripping
    ids = chat.tokenizer(RESPONSE)["input_ids"]
    _, second = continue_conversation(chat, [*ids, END], RESPONSE)
    assert "<think>add</think>" in chat.tokenizer.decode(second)


def test_a_template_that_hides_responses_is_refused(pristine: Path) -> None:
    chat = Chat.load(pristine)
    ids = chat.tokenizer("2")["input_ids"]
    chat.tokenizer.chat_template = "{% for m in messages %}{{ m.role }}{% endfor %}"
    with pytest.raises(UserError, match="does not render a response exactly once"):
        continue_conversation(chat, ids, "2")


def test_decode_drops_special_tokens_and_keeps_tags(pristine: Path) -> None:
    chat = Chat.load(pristine)
    ids = chat.tokenizer("<think>go  up .</think><action>up</action>")["input_ids"]
    assert chat.decode([*ids, END]) == "<think>go  up .</think><action>up</action>"
    assert chat.decode([START, *ids]) == "<think>go  up .</think><action>up</action>"


def test_decode_drops_a_stop_token_that_is_not_special(pristine: Path) -> None:
    chat = Chat.load(pristine)
    word = chat.tokenizer("up")["input_ids"]
    assert chat.decode([*word, 7]) == "up"
    assert chat.decode([*word, 7, 9]) != "up"  # only the last token ended the turn


def test_stop_ids_are_those_of_generation_config_and_tokenizer(folder: Path) -> None:
    assert Chat.load(folder).stop_ids == {END, 7, 9}
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 5}), "utf-8")
    assert Chat.load(folder).stop_ids == {END, 5}
    (folder / "generation_config.json").unlink()
    assert Chat.load(folder).stop_ids == {END}  # config.json names the tokenizer's


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a folder"):
        Chat.load(tmp_path / "nowhere")


def test_no_config(folder: Path) -> None:
    (folder / "config.json").unlink()
    with pytest.raises(UserError, match=r"has no config\.json"):
        Chat.load(folder)


def test_no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match="has no weights"):
        Chat.load(folder)


def test_pickle_weights_are_refused_with_the_reason(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"pytorch_model\.bin.*a pickle can run arbitrary code"):
        Chat.load(folder)


@pytest.mark.parametrize("shard", ["model-00002-of-00002.safetensors", "../model.safetensors"])
def test_missing_or_foreign_shard(folder: Path, shard: str) -> None:
    index = {"weight_map": {"a": "model.safetensors", "b": shard}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), "utf-8")
    with pytest.raises(UserError, match="lacks the weights file"):
        Chat.load(folder)


def test_no_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    with pytest.raises(UserError, match="has no tokenizer"):
        Chat.load(folder)


def test_broken_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{", "utf-8")
    with pytest.raises(UserError, match=r"the tokenizer in .* cannot be loaded"):
        Chat.load(folder)


def test_no_chat_template(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    make_tokenizer(folder, chat_template=None)
    with pytest.raises(UserError, match="has no chat template"):
        Chat.load(folder)


def test_an_enormous_chat_template(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("{# " + MAX_TEMPLATE * "x" + " #}", "utf-8")
    with pytest.raises(UserError, match="has more than 262,144 characters"):
        Chat.load(folder)


def test_template_that_refuses_the_messages(folder: Path) -> None:
    template = "{{ raise_exception('System role not supported') }}"
    (folder / "chat_template.jinja").write_text(template, "utf-8")
    with pytest.raises(UserError, match="rejects the prompt: System role not supported"):
        Chat.load(folder).render(MESSAGES)


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{{ 1 / 0 }}", "ZeroDivisionError: division by zero"),
        ("{{ messages[0].content + 1 }}", "TypeError: "),
    ],
)
def test_template_that_fails(folder: Path, template: str, problem: str) -> None:
    (folder / "chat_template.jinja").write_text(template, "utf-8")
    with pytest.raises(UserError, match=f"cannot render the prompt: {problem}"):
        Chat.load(folder).render(MESSAGES)


def test_no_end_of_turn_token(folder: Path) -> None:
    (folder / "generation_config.json").write_text("{}", "utf-8")
    settings = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    del settings["eos_token"]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    with pytest.raises(UserError, match="has no end-of-turn token"):
        Chat.load(folder)


@pytest.mark.parametrize("eos", ["<|im_end|>", [2, "x"], -1, 1.5, {"a": 1}, [[2]]])
def test_end_of_turn_token_that_is_no_id(folder: Path, eos: object) -> None:
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": eos}), "utf-8")
    with pytest.raises(UserError, match="eos_token_id must be a token id"):
        Chat.load(folder)


@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
def test_json_that_is_nested_too_deeply(folder: Path, name: str) -> None:
    (folder / name).write_text("[" * 100_000, "utf-8")
    with pytest.raises(UserError, match=f"{name} is nested too deeply to be read"):
        Chat.load(folder)


def test_errors_are_one_line(folder: Path) -> None:
    (folder / "generation_config.json").write_text("[]", "utf-8")
    with pytest.raises(UserError) as caught:
        Chat.load(folder)
    assert "\n" not in str(caught.value)
