"""The rules for responses, case by case."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.response import format_response, normalize_action, parse_response

GOOD = "<think>because</think><action>up</action>"

# (name, response, format_ok, action)
CASES = [
    ("plain", GOOD, True, "up"),
    ("spaces around the blocks", f" \n{GOOD}\n\t ", True, "up"),
    ("space between the blocks", "<think>a</think> \n <action>up</action>", True, "up"),
    ("no-break space between", "<think>a</think>\u00a0<action>up</action>", True, "up"),
    ("white space in the action", "<think>a</think><action>\n up \n</action>", True, "up"),
    ("several lines of thought", "<think>a\nb\n\nc</think><action>up</action>", True, "up"),
    ("empty thought", "<think></think><action>up</action>", True, "up"),
    ("empty action", "<think>a</think><action></action>", True, ""),
    ("blank action", "<think>a</think><action>  </action>", True, ""),
    ("upper-case tags", "<THINK>a</THINK><ACTION>up</ACTION>", True, "up"),
    ("mixed-case tags", "<Think>a</tHINK><Action>up</aCtion>", True, "up"),
    ("upper-case action", "<think>a</think><action>UP</action>", True, "UP"),
    (
        "action of several words",
        "<think>a</think><action>go to desk 1</action>",
        True,
        "go to desk 1",
    ),
    (
        "brackets in the action",
        "<think>a</think><action>search[a < b]</action>",
        True,
        "search[a < b]",
    ),
    ("other tags in the thought", "<think><b>a</b></think><action>up</action>", True, "up"),
    ("code fence in the thought", "<think>```py\nx=1\n```</think><action>up</action>", True, "up"),
    ("Chinese thought", "<think>向上走</think><action>up</action>", True, "up"),
    ("Chinese action", "<think>a</think><action>上</action>", True, "上"),
    ("right-to-left text", "<think>\u202eabc</think><action>up</action>", True, "up"),
    ("emoji", "<think>🙂</think><action>🙂</action>", True, "🙂"),
    ("null byte in the thought", "<think>\x00</think><action>up</action>", True, "up"),
    ("lone surrogate", "<think>\ud800</think><action>up</action>", True, "up"),
    ("empty", "", False, None),
    ("blank", " \n\t", False, None),
    ("no tags", "up", False, None),
    ("only the action", "<action>up</action>", False, "up"),
    ("only the thought", "<think>up</think>", False, None),
    ("text before", f"Sure! {GOOD}", False, "up"),
    ("text after", f"{GOOD} done", False, "up"),
    ("text between", "<think>a</think> so <action>up</action>", False, "up"),
    ("zero-width space between", "<think>a</think>\u200b<action>up</action>", False, "up"),
    ("byte-order mark before", f"\ufeff{GOOD}", False, "up"),
    ("action first", "<action>up</action><think>a</think>", False, "up"),
    ("two actions", f"{GOOD}<action>down</action>", False, "up"),
    ("two thoughts", f"<think>a</think>{GOOD}", False, "up"),
    ("the same twice", GOOD * 2, False, "up"),
    (
        "action inside the thought",
        "<think><action>left</action></think><action>up</action>",
        False,
        "left",
    ),
    (
        "action in code inside the thought",
        "<think>`<action>left</action>`</think><action>up</action>",
        False,
        "left",
    ),
    (
        "thought inside the action",
        "<action><think>a</think>up</action>",
        False,
        "<think>a</think>up",
    ),
    ("nested actions", "<think>a</think><action><action>up</action></action>", False, "up"),
    ("reopened action", "<action>left<action>up</action>", False, "up"),
    ("nested thoughts", "<think><think>a</think></think><action>up</action>", False, "up"),
    ("unclosed thought", "<think>a<action>up</action>", False, "up"),
    ("unopened thought", "a</think><action>up</action>", False, "up"),
    ("unclosed action", "<think>a</think><action>up", False, None),
    ("unopened action", "<think>a</think>up</action>", False, None),
    ("closing before opening", "</action><think>a</think><action>up", False, None),
    ("unclosed, then complete", "<think>a</think></action><action>up</action>", False, "up"),
    ("tag with an attribute", '<think>a</think><action type="x">up</action>', False, None),
    ("tag with a space", "<think>a</think><action >up</action>", False, None),
    ("closing tag with a space", "<think>a</think><action>up</ action>", False, None),
    ("self-closing tag", "<think>a</think><action/>", False, None),
    ("full-width brackets", "＜think＞a＜/think＞＜action＞up＜/action＞", False, None),
    ("Kelvin sign for k", "<thin\u212a>a</thin\u212a><action>up</action>", False, "up"),
    ("dotless i", "<th\u0131nk>a</th\u0131nk><action>up</action>", False, "up"),
    ("escaped tags", "&lt;think&gt;a&lt;/think&gt;<action>up</action>", False, "up"),
    ("cut in a tag", "<think>a</think><action>up</acti", False, None),
    ("answer in a box", "<think>a</think>\\boxed{up}", False, None),
]


@pytest.mark.parametrize(
    ("text", "ok", "action"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_case(text: str, ok: bool, action: str | None) -> None:
    parsed = parse_response(text)
    assert (parsed.format_ok, parsed.action) == (ok, action)


def test_the_table_is_large_enough() -> None:
    assert len({case[1] for case in CASES}) == len(CASES) >= 40


def test_thought_is_kept_only_of_well_formed_responses() -> None:
    assert parse_response("<think> why </think><action>up</action>").thought == "why"
    assert parse_response("<think>why</think>").thought == ""


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "unit", ["x", "<action>", "</action>", "<think>", "<", "\n", "<action></action>"]
)
def test_long_responses_take_linear_time(unit: str) -> None:
    # A quadratic scan of this many tags would take hours on any machine.
    parse_response(unit * (4_000_000 // len(unit)))


def test_100_kb_of_thought_is_well_formed() -> None:
    assert parse_response(format_response("x" * 100_000, "up")).format_ok


_PLAIN = st.text().filter(lambda text: "<" not in text).map(str.strip)


@given(_PLAIN, _PLAIN)
def test_parse_inverts_format(thought: str, action: str) -> None:
    parsed = parse_response(format_response(thought, action))
    assert (parsed.thought, parsed.action, parsed.format_ok) == (thought, action, True)


@given(st.lists(st.sampled_from(["<think>", "</think>", "<action>", "</action>", "a", " "])))
def test_any_mixture_of_tags_parses(parts: list[str]) -> None:
    parsed = parse_response("".join(parts))
    tags = [part for part in parts if part.startswith("<")]
    if parsed.format_ok:
        assert tags == ["<think>", "</think>", "<action>", "</action>"]
    if parsed.action is None:
        assert "<action>" not in tags or "</action>" not in tags[tags.index("<action>") :]


@pytest.mark.parametrize(
    ("action", "normal"), [(" Go  Up ", "go up"), ("UP", "up"), ("a\n\tb", "a b"), ("", "")]
)
def test_normalize_action(action: str, normal: str) -> None:
    assert normalize_action(action) == normal
