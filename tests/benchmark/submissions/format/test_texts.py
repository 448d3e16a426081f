"""Free texts by people: which are accepted, which are rejected, and how they are shown."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmark.submissions.format.findings import Finding
from benchmark.submissions.format.texts import (
    BADGES,
    PLACEHOLDERS,
    check_claims,
    check_link,
    check_name,
    check_own,
    check_title,
    check_visible,
    skeleton,
)
from tasks.texts import on_one_line


@pytest.mark.parametrize(
    "name",
    [
        "Ada Lovelace",
        "Jos\u00e9 Mart\u00ed",
        "\u738b\u5c0f\u660e",
        "\u0410\u043d\u043d\u0430 Anna",
        "\u03a3. Papadopoulou",
        "O'Neill-Smith, Jr.",
        "@ada_1815",
        "\u05d3\u05d5\u05d3",
    ],
)
def test_names_of_the_world_are_taken(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("\u0410da", "several scripts"),
        ("Ad\u03b1", "several scripts"),
        ("A\u200bda", r"U\+200B"),
        ("\u202eada", r"U\+202E"),
        ("a\u00adb", r"U\+00AD"),
        ("a\ufe0fb", r"U\+FE0F"),
        ("\u2800", r"U\+2800"),
        ("a\tb", r"U\+0009"),
        ("\uff21da", "plain form"),
        ("\U0001d400da", "plain form"),
        ("Jose\u0301", "single characters"),
        ("--", "no letter"),
    ],
)
def test_names_that_could_be_taken_for_others_are_refused(name: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check_name(name)


def test_lines_are_for_descriptions_alone() -> None:
    check_visible("one\ntwo", lines=True)
    with pytest.raises(ValueError, match=r"U\+000A"):
        check_visible("one\ntwo")
    with pytest.raises(ValueError, match=r"U\+000D"):
        check_visible("one\r\ntwo", lines=True)


@pytest.mark.parametrize(
    "link", ["https://example.org", "https://arxiv.org/abs/2602.21534v1?x=1&y=2#z"]
)
def test_plain_links_are_taken(link: str) -> None:
    check_link(link)


@pytest.mark.parametrize(
    "link",
    [
        "http://example.org",
        "HTTPS:example.org",
        "//example.org",
        "https://",
        "https://user@example.org",
        "https://example.org/a b",
        "https://example.org/a\nb",
        "https://example.org/(a)",
        "https://example.org/`a`",
        "https://example.org/<a>",
        "https://ex\u00e4mple.org",
        "data:text/html,x",
    ],
)
def test_other_links_are_refused(link: str) -> None:
    with pytest.raises(ValueError, match="not a plain https address"):
        check_link(link)


def test_what_is_foreign_is_shown_on_one_short_line() -> None:
    assert on_one_line("a\nb\x1b[31m\u202e") == "aU+000AbU+001B[31mU+202E"
    assert on_one_line("x" * 5, limit=5) == "xxxxx"
    assert on_one_line("x" * 6, limit=5) == "xxxx\u2026"
    finding = Finding("a\nb", "c\rd", "\x07", "do this")
    assert finding.text == "aU+000Ab, cU+000Dd: U+0007; do this"


@pytest.mark.slow
@given(st.text(), st.integers(1, 50))
def test_every_text_fits_on_a_line(text: str, limit: int) -> None:
    shown = on_one_line(text, limit)
    assert shown.isprintable()
    assert len(shown) <= limit


@pytest.mark.slow
@given(st.text(st.characters(codec="utf-8")))
@example("a\u1680")  # a space other than the ordinary one
@example("a\u00a0b")
def test_a_text_that_is_taken_is_seen_as_it_is(text: str) -> None:
    try:
        check_visible(text)
    except ValueError:
        return
    assert on_one_line(text, limit=len(text) + 1) == text


def test_what_the_example_says_is_nobodys_own() -> None:
    for text in PLACEHOLDERS:
        with pytest.raises(ValueError, match="is the example's text: write your own"):
            check_own(f" {text}")
    check_own("the issues of this repository")


def test_people_may_be_called_like_a_claim_but_not_like_a_badge() -> None:
    for name in ("Sota Kato", "arlarena-bench", "Ada"):
        check_claims(name, BADGES)
    with pytest.raises(ValueError, match="'official' is what the board says"):
        check_claims("The official re-run", BADGES)


@pytest.mark.parametrize(
    "other",
    [
        *("GRP0 sokoban-standard", "grpo SOKOBAN standard", "GRPO_sokoban.standard"),
        *("GRPO sokoban-stanclard", "GRPO sokoban-5tandard", "6RPO sokoban-standard"),
        *("GRPO s0k0ban-5tanclarcl", "GRPO 50k08an-574ndard", "grpo  (S0KOBAN)-standard"),
        "G R P O (sokoban) standard.",
    ],
)
def test_titles_that_are_read_as_one_are_one(other: str) -> None:
    assert skeleton(other) == skeleton("GRPO sokoban-standard")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("GRPO v6", "GRPO v9"),
        ("GRPO 10", "GRPO 100"),
        ("GRPO sokoban-standard", "GSPO sokoban-standard"),
        ("SAMPO 2", "SAMPO"),
        ("learn", "lean"),
        ("REINFORCE", "REINFORCE++"),
        ("GRPO+", "GRPO"),
        ("PPO v1.5", "PPO v15"),
        ("GRPO beta 1.0", "GRPO beta 10"),
        ("DAPO lr 1e-5", "DAPO lr 1e5"),
    ],
)
def test_titles_that_differ_are_two(one: str, other: str) -> None:
    assert skeleton(one) != skeleton(other)


def test_two_letters_that_are_read_as_one() -> None:
    assert skeleton("modern") == skeleton("rnodem")
    assert skeleton("down") == skeleton("clovvn")
    assert skeleton("SAMPO") == skeleton("SAMP0") == skeleton("5AMPO") == skeleton("SAMPQ")
    assert skeleton("sampq") != skeleton("sampo")


@pytest.mark.parametrize(
    ("title", "claim"),
    [
        ("SAMPO RERUN", "re-run"),
        ("SAMPO r e r u n", "re-run"),
        ("SAMPO rerun3", "re-run"),
        ("Re-ran SAMPO", "re-ran"),
        ("SAMPO v2 - S0TA", "SOTA"),
        ("SAMPO 5OTA", "SOTA"),
        ("SAMPO SQTA", "SOTA"),
        ("SAMPO re-runs", "re-run"),
        ("SAMPO (re-runs 2)", "re-run"),
        ("GRPO trained again", "trained again"),
        ("SAMPO S.O.T.A.", "SOTA"),
        ("SOTA2026", "SOTA"),
        ("2026SOTA", "SOTA"),
        ("SOTAv2", "SOTA"),
        ("SO-TA/2026", "SOTA"),
        ("SOTAs", "SOTA"),
        ("SOTAs2026", "SOTA"),
        ("50TA5", "SOTA"),
        ("State-of-the-art GRPO", "state of the art"),
        ("SAMPO 0FFICIAL", "official"),
        ("SAMPO 0fficia1", "official"),
        ("SAMPO offi cial", "official"),
        ("SAMPO/verified", "verified"),
        ("SAMPO verif1ed2", "verified"),
        ("SAMPO VERlFlED", "verified"),
        ("replayed.SAMPO", "replayed"),
    ],
)
def test_what_only_the_board_says(title: str, claim: str) -> None:
    with pytest.raises(ValueError, match=f"'{claim}' is what the board says of entries"):
        check_title(title)


@pytest.mark.parametrize(
    "title",
    ["(ISPO", "GRP() sokoban", "GRP( ) sokoban", "(ISPO (sokoban)", "a)b(c", "((a))", "GRPO (-)"],
)
def test_parentheses_that_are_read_as_letters(title: str) -> None:
    with pytest.raises(ValueError, match="parentheses must be in pairs, around words"):
        check_title(title)


@pytest.mark.parametrize(
    "title",
    [
        *("GRPO (sokoban)", "PPO(lambda) (2 epochs)", "SAMPO v2", "Unverified", "Rerunning"),
        *("Iota 7", "Art of the state", "Toast 50"),
    ],
)
def test_words_that_the_board_does_not_say(title: str) -> None:
    check_title(title)
