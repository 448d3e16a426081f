r"""The response format of this task: a fenced block of Python, or an answer in `\boxed{...}`.

The rule is part of the protocol, so a change of behavior here must change `CONTRACT`.

A fence is a line of three or more backticks, indented by at most three spaces, and on an opening
fence the name of a language. A block ends at the next line that is nothing but the same number of
backticks, and only such a line is seen inside it. A block is Python if its fence has three
backticks and names `py`, `python`, `python3` or no language. Any other block (another language,
or four and more backticks, which quote rather than state) is neither run nor read. What follows a
fence that is never closed is not read either: a program that was cut off may hold a box in a
string. Tildes, and backticks in the middle of a line, mean nothing.
"""

import re
from dataclasses import dataclass

CONTRACT = "code-or-answer-1"
"""Name of this parse rule in the protocol."""

MOST_ANSWER_CHARACTERS = 1000
"""A longer answer is none."""

# `^` and `$` know no line end but "\n"; a "\r" before it is read as a trailing space.
_FENCE = re.compile(r"^( {0,3})(`{3,}+)([^`\n]*+)$", re.MULTILINE)
# ASCII: with Unicode case folding other letters than these would pass.
_PYTHON = re.compile(r"[ \t]*(?:py|python|python3)?[ \t\r]*", re.IGNORECASE | re.ASCII)
# A backslash takes the next character with it, so that \{ is not a brace and \\boxed not a box.
_BRACE = re.compile(r"\\boxed *\{|\\.|[{}]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ProgramResponse:
    r"""What one response says.

    Attributes:
        kept: The response up to the end of the first complete Python block, or all of it where
            there is none. What comes after is not part of the conversation.
        code: The text of that block, with "\n" at the end of lines and without the indentation of
            its fence; None where there is none.
        answer: The content of the last box in the prose of `kept`; see `boxed`.
    """

    kept: str
    code: str | None
    answer: str | None

    @property
    def format_ok(self) -> bool:
        """Whether there is code or an answer; a turn without either is void."""
        return self.code is not None or self.answer is not None


def parse_response(text: str) -> ProgramResponse:
    """Read a response; linear in its length, never raises."""
    prose: list[str] = []
    begin = 0
    opening: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opening is None:
            prose.append(text[begin : fence.start()])
            opening = fence
        elif fence[2] == opening[2] and not fence[3].strip(" \t\r"):
            begin = fence.end()
            if len(opening[2]) == 3 and _PYTHON.fullmatch(opening[3]):
                code = _unindented(text[opening.end() : fence.start()], len(opening[1]))
                return ProgramResponse(text[: fence.end(2)], code, _last_box(prose))
            opening = None
    if opening is None:
        prose.append(text[begin:])
    return ProgramResponse(text, None, _last_box(prose))


def boxed(text: str) -> str | None:
    r"""The content of the last `\boxed{...}` in a text without code, such as a program's output.

    The last box is the one that opens last among those that are closed, so of nested boxes it is
    the innermost. Its braces balance; `\{` and `\}` are not braces. Linear in the text's length,
    never raises.

    Returns:
        The content without surrounding white space; None where there is no box, or the last one
        is blank or longer than `MOST_ANSWER_CHARACTERS`.
    """
    return _last_box([text])


def format_code(thought: str, code: str) -> str:
    """Write a response that runs code; the inverse of `parse_response`.

    Raises:
        ValueError: The response would be read as something else, because of a fence in the
            thought, say, or of a line of three backticks in the code.
    """
    text = f"{thought}\n```python\n{code}\n```" if thought else f"```python\n{code}\n```"
    if parse_response(text) != ProgramResponse(text, code, boxed(thought)):
        raise ValueError("this thought and code cannot be written as one response")
    return text


def format_answer(thought: str, answer: str) -> str:
    """Write a response that answers; the inverse of `parse_response`.

    Raises:
        ValueError: The response would be read as something else, because of a fence in the
            thought, say, or of braces in the answer that do not balance.
    """
    text = f"{thought}\n\\boxed{{{answer}}}" if thought else f"\\boxed{{{answer}}}"
    if parse_response(text) != ProgramResponse(text, None, answer):
        raise ValueError("this thought and answer cannot be written as one response")
    return text


def _unindented(between: str, indentation: int) -> str:
    r"""The lines between two fences, without the line ends of the first fence and the last line.

    Args:
        between: From the end of the opening fence's line to the start of the closing one's.
        indentation: How many spaces are taken from each line, where it has that many.
    """
    lines = between.removeprefix("\n").removesuffix("\n").split("\n")
    indent = re.compile(f" {{0,{indentation}}}")
    return "\n".join(line[indent.match(line).end() :].removesuffix("\r") for line in lines)  # type: ignore[union-attr] # it matches nothing, too


def _last_box(parts: list[str]) -> str | None:
    """The last box of all parts; a box ends in the part that it begins in."""
    for part in reversed(parts):
        found = _find_box(part)
        if found is not None:
            content = part[found].strip()
            return content if 0 < len(content) <= MOST_ANSWER_CHARACTERS else None
    return None


def _find_box(text: str) -> slice | None:
    """Where the content of the last box lies."""
    last: slice | None = None
    opened: list[tuple[int, bool]] = []
    for brace in _BRACE.finditer(text):
        if brace[0] == "}":
            if opened:
                start, is_box = opened.pop()
                # Positions, not texts: a text for each of many nested boxes would be quadratic.
                if is_box and (last is None or start > last.start):
                    last = slice(start, brace.start())
        elif brace[0].endswith("{") and brace[0] != "\\{":
            opened.append((brace.end(), brace[0] != "{"))
    return last
