"""The wording of goals: `phrases.yaml`."""

import re
from functools import cache
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from tasks.errors import UserError
from tasks.webshop.generator.tables import Table, check_slots, read_table
from tasks.webshop.generator.wording import filled, slots_of, with_article

PHRASES = Path(__file__).parent / "phrases.yaml"

_THING = frozenset({"np", "plural", "bare", "Bare", "short"})
_OPTIONS = frozenset({"options", "named", "choices"})
_LIMIT = frozenset({"limit", "budget", "money"})
_VALUE_SLOTS = frozenset({"value", "a_value"})


class OptionWords(Table):
    """How the value of an option is asked for.

    Attributes:
        names: Of the options.
        values: Regular expression of the values; None for all.
        phrases: After the noun.
        clause: As a sentence of its own.
    """

    names: tuple[str, ...] = Field(min_length=1)
    values: str | None = None
    phrases: tuple[str, ...] = Field(min_length=1)
    clause: str

    @model_validator(mode="after")
    def _has_known_gaps(self) -> Self:
        check_slots((*self.phrases, self.clause), _VALUE_SLOTS)
        return self

    def fits(self, name: str, value: str) -> bool:
        """Whether these words can be used."""
        return name in self.names and (
            self.values is None or re.fullmatch(self.values, value) is not None
        )


class Phrases(Table):
    """All patterns that wishes are made from; what their gaps mean stands in the file."""

    wishes: tuple[str, ...] = Field(min_length=1)
    musts: tuple[str, ...] = Field(min_length=1)
    limits: tuple[str, ...] = Field(min_length=1)
    budgets: tuple[str, ...] = Field(min_length=1)
    amounts: tuple[str, ...] = Field(min_length=1)
    options: tuple[OptionWords, ...]

    @model_validator(mode="after")
    def _have_known_gaps(self) -> Self:
        for wish in self.wishes:
            _check_wish(wish)
        check_slots(self.musts, frozenset({"they", "They", "verbs"}))
        check_slots((*self.limits, *self.budgets), frozenset({"money"}))
        check_slots(self.amounts, frozenset({"amount"}))
        return self

    def for_option(self, name: str, value: str) -> OptionWords:
        """The words for a value of an option.

        Raises:
            UserError: There are none.
        """
        for words in self.options:
            if words.fits(name, value):
                return words
        raise UserError(f"{PHRASES.name}: options: there are no words for {name} {value!r}")


@cache
def phrases() -> Phrases:
    """The patterns.

    Raises:
        UserError: The file is not what it should be.
    """
    return read_table(PHRASES, Phrases)


def with_value(pattern: str, value: str) -> str:
    """An option's words with its value."""
    return filled(pattern, {"value": value, "a_value": with_article(value)})


def _check_wish(wish: str) -> None:
    """Check that a pattern says all of a wish, and nothing twice."""
    check_slots((wish,), _THING | _OPTIONS | _LIMIT | {"must"})
    slots = slots_of(wish)
    for part in (_THING, _OPTIONS, _LIMIT):
        if len(slots & part) != 1:
            raise ValueError(f"{wish!r} must have one of {', '.join(sorted(part))}")
    if ("short" in slots) != ("must" in slots):
        raise ValueError(f"{wish!r} must have both or none of short and must")
