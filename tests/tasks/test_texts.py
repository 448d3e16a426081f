"""Texts for human readers."""

import pytest

from tasks.texts import (
    counted,
    cut,
    cut_middle,
    digest_text,
    first_line,
    on_one_line,
    plural,
    printable,
    short_names,
    value_text,
    without_middle,
)


def test_a_long_text_is_cut_with_a_mark_within_its_length() -> None:
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdefg", 6) == "abcde\u2026"
    assert cut("abcdefg", 6, "...") == "abc..."


def test_long_names_keep_both_ends_and_stay_apart() -> None:
    assert cut_middle("abcdefghi", 9) == "abcdefghi"
    assert cut_middle("abcdefghijkl", 9) == "abcde\u2026jkl"
    names = ["abcdefghijkl", "abcdefghijkm", "abcdeXXXijkl", "a\nb", "abcdefghijkl"]
    assert short_names(names, 9) == [
        "abcde\u2026jkl", "abcde\u2026jkm", "abcde\u2026jkl (2)", "aU+000Ab", "abcde\u2026jkl (3)",
    ]  # fmt: skip


def test_both_ends_of_a_long_text_stay() -> None:
    assert without_middle("0123456789", 10, 4, "[{}]") == "0123456789"
    assert without_middle("0123456789ab", 10, 4, "[{} left out]") == "012345\n[2 left out]\n89ab"
    assert without_middle("x" * 5_000, 10, 5, "[{:,}]").splitlines()[1] == "[4,990]"


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 seeds"), (1, "1 seed"), (2, "2 seeds"), ("1", "1 seed")],
)
def test_nouns_are_counted(number: int | str, text: str) -> None:
    assert counted(number, "seed") == text
    assert text.endswith(plural(number, "seed"))


def test_regular_plurals() -> None:
    nouns = ("entry", "play", "process", "box", "batch", "epoch", "GPU")
    many = ["entries", "plays", "processes", "boxes", "batches", "epochs", "GPUs"]
    assert [plural(2, noun) for noun in nouns] == many
    assert [plural(1, noun) for noun in nouns] == list(nouns)


@pytest.mark.parametrize(
    "hidden",
    ["\x1b]52;c;aGk=\x07", "\x1b[2J", "\r", "\n", "\t", "\u202e", "\u200b", "\x9b31m", "\u3164"],
)
def test_nothing_that_moves_a_terminal_comes_through(hidden: str) -> None:
    shown = printable(f"a{hidden}b")
    assert shown.isprintable() and f"U+{ord(hidden[0]):04X}" in shown
    assert shown[0] == "a" and shown[-1] == "b"


def test_a_foreign_text_is_on_one_line_and_not_too_long() -> None:
    assert on_one_line("gr\u202epo\n\u00e9 $x$") == "grU+202EpoU+000A\u00e9 $x$"
    assert on_one_line("x" * 500) == "x" * 399 + "\u2026"
    assert on_one_line("\n" * 10, 12) == "U+000AU+000\u2026"


def test_the_first_line_of_an_error_says_something() -> None:
    assert first_line(ValueError("\n  \nno such file\nmore")) == "no such file"
    assert first_line(ValueError()) == "ValueError"


def test_a_hash_is_shown_by_its_beginning_and_other_values_as_they_are() -> None:
    digest = "0123456789abcdef" * 4
    assert digest_text(digest) == value_text(digest) == "0123456789ab..."
    assert value_text("x" * 64) == "x" * 64
    assert (value_text(3), value_text(None)) == ("3", "None")
