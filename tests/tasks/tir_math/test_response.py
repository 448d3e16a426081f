r"""The rules for responses, case by case."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.tir_math.response import (
    MOST_ANSWER_CHARACTERS,
    boxed,
    format_answer,
    format_code,
    parse_response,
)

BLOCK = "```python\nprint(1)\n```"

# (name, response, kept part: None for all of it, code, answer)
CASES: list[tuple[str, str, str | None, str | None, str | None]] = [
    ("empty", "", None, None, None),
    ("prose", "I do not know.", None, None, None),
    ("python", BLOCK, None, "print(1)", None),
    ("py", "```py\nx\n```", None, "x", None),
    ("python3", "```python3\nx\n```", None, "x", None),
    ("no language", "```\nx\n```", None, "x", None),
    ("upper case", "```PyThon\nx\n```", None, "x", None),
    ("spaces around the language", "``` python  \nx\n```", None, "x", None),
    ("Kelvin sign is not a k", "```\u212apy\nx\n```", None, None, None),
    ("python2 is another language", "```python2\nx\n```", None, None, None),
    ("language and more", "```python title=a\nx\n```", None, None, None),
    ("empty block", "```python\n```", None, "", None),
    ("block of an empty line", "```python\n\n```", None, "", None),
    ("empty lines at both ends", "```\n\nx\n\n```", None, "\nx\n", None),
    ("thought before", f"So:\n{BLOCK}", None, "print(1)", None),
    ("text after is dropped", f"{BLOCK}\nIt prints 1.", BLOCK, "print(1)", None),
    ("newline after is dropped", f"{BLOCK}\n", BLOCK, "print(1)", None),
    ("trailing spaces of the closing fence", f"{BLOCK}  \nx", BLOCK, "print(1)", None),
    ("two blocks", f"{BLOCK}\n```python\nprint(2)\n```", BLOCK, "print(1)", None),
    ("box after the block", f"{BLOCK}\n\\boxed{{5}}", BLOCK, "print(1)", None),
    ("box before the block", f"\\boxed{{5}}\n{BLOCK}", None, "print(1)", "5"),
    ("box in the code", '```python\nprint("\\\\boxed{5}", r"\\boxed{6}")\n```', None,
     'print("\\\\boxed{5}", r"\\boxed{6}")', None),
    ("box in unclosed code", "```python\nprint(r'\\boxed{5}')", None, None, None),
    ("box before unclosed code", "\\boxed{4}\n```python\nprint(r'\\boxed{5}')", None, None, "4"),
    ("only an opening fence", "```python", None, None, None),
    ("only an opening fence and a newline", "```python\n", None, None, None),
    ("language on the closing fence", "```python\nx\n```python", None, None, None),
    ("fence opened twice", "```python\n```python\nx\n```", None, "```python\nx", None),
    ("indented fence", "   ```python\n   if a:\n       b\n   ```", None, "if a:\n    b", None),
    ("line indented less than its fence", "  ```\n x\n```", None, "x", None),
    ("four spaces are not a fence", "    ```python\n    x\n    ```", None, None, None),
    ("closing fence too deep", "```python\nx\n    ```\ny\n```", None, "x\n    ```\ny", None),
    ("a tab is not indentation", "\t```python\nx\n```", None, None, None),
    ("fence in the middle of a line", "run ```python\nx\n```", None, None, None),
    ("fence after a closing one's text", "a ```\nx\n```\ny\n```", None, "y", None),
    ("inline code", "```python print(1)``` and \\boxed{2}", None, None, "2"),
    ("inline code over two lines", "`a\n```b`\n\\boxed{2}", None, None, "2"),
    ("text after closing backticks", "```\nx\n``` done\n```", None, "x\n``` done", None),
    ("two backticks", "``\nx\n``", None, None, None),
    ("tilde fences", "~~~python\nx\n~~~\n\\boxed{2}", None, None, "2"),
    ("another language", "```bash\nls\n```", None, None, None),
    ("box in another language", "\\boxed{1}\n```text\n\\boxed{2}\n```", None, None, "1"),
    ("box after another language", "```bash\nls\n```\n\\boxed{2}", None, None, "2"),
    ("python after another language", f"```bash\nls\n```\n{BLOCK}", None, "print(1)", None),
    ("python inside another language", f"```text\n{BLOCK}\n\\boxed{{3}}", None, None, "3"),
    ("four backticks", "````python\nx\n````", None, None, None),
    ("four backticks quote a block", f"````\n{BLOCK}\n````\n\\boxed{{2}}", None, None, "2"),
    ("four backticks do not close three", "```python\nx\n````\ny\n```", None, "x\n````\ny", None),
    ("three backticks do not close four", "````\nx\n```\n\\boxed{1}", None, None, None),
    ("box across a block", "\\boxed{1\n```sh\n```\n}", None, None, None),
    ("windows line ends", "a\r\n```python\r\nx\r\ny\r\n```\r\nb", "a\r\n```python\r\nx\r\ny\r\n```",
     "x\ny", None),
    ("old Mac line ends are none", "```python\rx\r```", None, None, None),
    ("other line separators are none", "```python\u2028x\u2028```", None, None, None),
    ("null byte in the code", "```python\n\x00\n```", None, "\x00", None),
    ("replacement character and lone surrogate", "\ufffd\ud800\n```\n\udfff\n```", None,
     "\udfff", None),
    ("null byte in the answer", "\\boxed{\x00}", None, None, "\x00"),
    ("lone surrogate in the answer", "\\boxed{\ud800}", None, None, "\ud800"),
    ("answer", "It is \\boxed{5}.", None, None, "5"),
    ("white space around the answer", "\\boxed{ 5\n}", None, None, "5"),
    ("spaces before the brace", "\\boxed  {5}", None, None, "5"),
    ("no braces", "\\boxed 5", None, None, None),
    ("other boxes", "\\fbox{5} \\boxed[6] \\boxedx{7} boxed{8}", None, None, None),
    ("escaped box", "\\\\boxed{5}", None, None, None),
    ("line end, then a box", "\\\\\\boxed{5}", None, None, "5"),
    ("last box", "\\boxed{5} or \\boxed{6}", None, None, "6"),
    ("last complete box", "\\boxed{5} or \\boxed{6", None, None, "5"),
    ("last box is empty", "\\boxed{5} or \\boxed{}", None, None, None),
    ("last box is blank", "\\boxed{5} or \\boxed{ \n}", None, None, None),
    ("nested boxes", "\\boxed{\\boxed{5}}", None, None, "5"),
    ("nested box, not the last", "\\boxed{\\boxed{5} + 1}", None, None, "5"),
    ("nested braces", "\\boxed{\\frac{1}{\\sqrt{2}}}", None, None, "\\frac{1}{\\sqrt{2}}"),
    ("escaped braces", "\\boxed{\\{1, 2\\}}", None, None, "\\{1, 2\\}"),
    ("one escaped brace", "\\boxed{a \\} b}", None, None, "a \\} b"),
    ("brace after an escaped backslash", "\\boxed{a \\\\} b}", None, None, "a \\\\"),
    ("too many closing braces", "}} \\boxed{5}}", None, None, "5"),
    ("too many opening braces", "{ { \\boxed{5}", None, None, "5"),
    ("opening brace inside the box", "\\boxed{ {5 }", None, None, None),
    ("box inside an unclosed one", "\\boxed{1 + \\boxed{5}", None, None, "5"),
    ("box over several lines", "\\boxed{\n1\n+\n2\n}", None, None, "1\n+\n2"),
    ("longest answer", f"\\boxed{{{'1' * MOST_ANSWER_CHARACTERS}}}", None, None,
     "1" * MOST_ANSWER_CHARACTERS),
    ("answer too long", f"\\boxed{{5}} \\boxed{{{'1' * (MOST_ANSWER_CHARACTERS + 1)}}}", None,
     None, None),
    ("backslash at the end", "\\boxed{5}\\", None, None, "5"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("response", "kept", "code", "answer"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_a_response_is_read_as_the_table_says(
    response: str, kept: str | None, code: str | None, answer: str | None
) -> None:
    parsed = parse_response(response)
    assert parsed.kept == (response if kept is None else kept)
    assert parsed.code == code
    assert parsed.answer == answer
    assert parsed.format_ok == (code is not None or answer is not None)


def test_no_case_stands_in_the_table_twice() -> None:
    assert len({case[0] for case in CASES}) == len(CASES)
    assert len({case[1] for case in CASES}) == len(CASES)


def test_a_box_in_output_needs_no_prose() -> None:
    assert boxed("```\n\\boxed{5}\n") == "5"
    assert boxed("5\n") is None


MEGABYTE = 2**20
LARGE = {
    "opening fences": "```python\n" * (MEGABYTE // 10),
    "closing fences": "```\n" * (MEGABYTE // 4),
    "fences of growing length": "".join("`" * n + "\n" for n in range(3, 1448)),
    "other languages": "```a\n```\n" * (MEGABYTE // 9),
    "backticks": "`" * MEGABYTE,
    "backticks and a letter between": "```" + "`a" * (MEGABYTE // 2),
    "spaces": " " * MEGABYTE,
    "opening braces": "{" * MEGABYTE,
    "closing braces": "}" * MEGABYTE,
    "boxes": "\\boxed{" * (MEGABYTE // 7),
    "nested boxes": "\\boxed{" * (MEGABYTE // 8) + "}" * (MEGABYTE // 8),
    "boxes of boxes": "\\boxed{5}" * (MEGABYTE // 9),
    "boxes with spaces": "\\boxed" + " " * MEGABYTE,
    "backslashes": "\\" * MEGABYTE,
    "newlines": "\n" * MEGABYTE,
    "indented code": "   ```\n" + "   x\n" * (MEGABYTE // 5) + "```",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_a_megabyte_is_read_in_linear_time(name: str) -> None:
    begin = time.process_time()
    parsed = parse_response(LARGE[name])
    boxed(LARGE[name])
    # A machine twenty times slower than the slowest tested one passes; a quadratic parser does not.
    assert time.process_time() - begin < 8
    assert LARGE[name].startswith(parsed.kept)


PIECES = st.sampled_from(
    ["```", "````", "~~~", "python", "py", "`", "x", " ", "    ", "\n", "\r\n", "\\boxed", "{", "}"]
)
LARGER_PIECES = st.sampled_from(["```python\n", "\n```\n", "\\boxed{", "\\", "\x00", "\ud800"])
TEXTS = st.one_of(st.text(), st.lists(PIECES | LARGER_PIECES, max_size=40).map("".join))


@given(TEXTS)
def test_any_text_is_read(text: str) -> None:
    parsed = parse_response(text)
    assert text.startswith(parsed.kept)
    assert parse_response(parsed.kept) == parsed
    assert parsed.code is not None or parsed.kept == text
    if parsed.answer is not None:
        assert parsed.answer == parsed.answer.strip() != ""
        assert parsed.answer in parsed.kept
    # Text after the first block changes nothing; before it, a closing fence may follow.
    if parsed.code is not None:
        assert parse_response(parsed.kept + "\n" + text) == parsed


@given(TEXTS)
def test_code_that_is_written_is_read(code: str) -> None:
    try:
        response = format_code("Let us compute.", code)
    except ValueError:
        assert "```" in code or "\r" in code
    else:
        parsed = parse_response(response)
        assert (parsed.kept, parsed.code, parsed.answer) == (response, code, None)


@given(TEXTS)
def test_an_answer_that_is_written_is_read(answer: str) -> None:
    try:
        response = format_answer("Let us answer.", answer)
    except ValueError:
        assert not answer.strip() or answer != answer.strip() or set(answer) & set("{}\\`")
    else:
        parsed = parse_response(response)
        assert (parsed.kept, parsed.code, parsed.answer) == (response, None, answer)


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(ValueError, match="thought and code"):
        format_code("", "x = '''\n```\n'''")
    with pytest.raises(ValueError, match="thought and code"):
        format_code("```", "x")
    with pytest.raises(ValueError, match="thought and answer"):
        format_answer("", "{")
    with pytest.raises(ValueError, match="thought and answer"):
        format_answer(BLOCK, "5")


def test_formats_are_plain() -> None:
    assert format_code("So:", "print(1)") == "So:\n```python\nprint(1)\n```"
    assert format_code("", "print(1)") == BLOCK
    assert format_answer("So:", "5") == "So:\n\\boxed{5}"
    assert format_answer("", "5") == "\\boxed{5}"
