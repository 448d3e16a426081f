"""The word tables: mistakes are reported; attributes and option values are distinguishable."""

from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from rapidfuzz import fuzz, utils

from tasks.errors import UserError
from tasks.webshop.generator.phrases import PHRASES, Phrases, phrases
from tasks.webshop.generator.tables import (
    DEPARTMENTS,
    Department,
    departments,
    kinds,
    read_table,
)

KIND: dict[str, Any] = {
    "noun": "lamp",
    "levels": ["Lamps"],
    "price": [10, 20],
    "uses": ["home", "work", "travel"],
    "titles": ["{brand} {form} Lamp, {t1}"] * 3,
    "descriptions": ["{A_form} lamp."] * 3,
    "details": ["One.", "Two.", "Three."],
    "forms": {"brass": ["Of brass."], "glass": ["Of glass."]},
    "traits": {f"trait {letter}": [f"It has trait {letter}."] for letter in "abcdef"},
    "options": {"color": {"values": ["red", "blue"]}},
}
DEPARTMENT: dict[str, Any] = {
    "category": "light",
    "label": "Light",
    "brands": {f"Brand{letter}": 0.5 for letter in "abcdef"},
    "lines": list("ABCDEF"),
    "closings": ["One.", "Two.", "Three."],
}


def alike(one: str, other: str) -> bool:
    """Whether WebShop's reward considers two texts equal."""
    return round(fuzz.token_set_ratio(one, other, processor=utils.default_process)) > 85


def read(folder: Path, kind: dict[str, Any]) -> Department:
    path = folder / "light.yaml"
    path.write_text(yaml.safe_dump(DEPARTMENT | {"kinds": {"lamps": kind}}), "utf-8")
    return read_table(path, Department)


def test_a_table_is_read(tmp_path: Path) -> None:
    kind = read(tmp_path, KIND).kinds["lamps"]
    assert (kind.name, kind.noun, kind.number) == ("lamps", "lamp", "one")
    brass = kind.forms["brass"]
    assert (brass.name, brass.role, brass.phrase, brass.title) == ("brass", "of", "brass", "Brass")
    assert kind.traits["trait a"].role == "is"
    assert kind.options["color"].values == ("red", "blue")


def test_roles(tmp_path: Path) -> None:
    traits = KIND["traits"] | {
        "usb port": {"with": "a usb port", "bullets": ["A USB port."]},
        "dry hair": {"for": "very dry hair", "bullets": ["For dry hair."], "only": ["glass"]},
    }
    lamps = read(tmp_path, KIND | {"traits": traits}).kinds["lamps"].traits
    port, hair = lamps["usb port"], lamps["dry hair"]
    assert (port.role, port.phrase, port.title) == ("with", "a usb port", "USB Port")
    assert (hair.role, hair.title) == ("for", "for Very Dry Hair")
    assert hair.goes_with("glass") and not hair.goes_with("brass") and port.goes_with("brass")
    assert hair.excludes(hair) and not hair.excludes(port)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": "red"}, ".colour: Extra inputs are not permitted"),
        ({"price": [20, 10]}, ": Value error, the price must go from a lower"),
        ({"titles": ["{brend} Lamp"] * 3}, r"'\{brend\} Lamp' has unknown gaps: brend"),
        (
            {"forms": KIND["forms"] | {"silk": ["It is soft."]}},
            "forms.silk: Value error, 'It is soft.' does not hold 'silk'",
        ),
        (
            {"traits": KIND["traits"] | {"new": {"with": "new", "of": "new", "bullets": ["New."]}}},
            "traits.new: Value error, give only one of of and with",
        ),
        (
            {"traits": KIND["traits"] | {"new": {"only": ["wood"], "bullets": ["New."]}}},
            "new names an unknown form: wood",
        ),
        ({"traits": KIND["traits"] | {"brass": ["Of brass."]}}, "both form and trait: brass"),
        ({"details": ["One.", "Two.", "Three"]}, r"details.2: String should match pattern"),
        ({"details": ["One.", "Two.", "x" * 111]}, "details.2: String should have at most 110"),
        ({"options": {"size": {"values": ["8", 9]}}}, "size.values.1: Input should be a valid str"),
        ({"options": {"size": {"values": ["8", "9, wide"]}}}, "size.values.1: String should match"),
        ({"options": {"size": {"values": ["8", "search"]}}}, "size has a button's name: search"),
        ({"options": {"size": {"values": ["8", "brass"]}}}, "size has an attribute's name: brass"),
        (
            {"options": {"size": {"values": ["8", "9"]}, "width": {"values": ["9", "10"]}}},
            "9 is both width and size",
        ),
        (
            {
                "forms": KIND["forms"]
                | {"tin": {"bullets": ["Tin."], "options": {"color": ["red"]}}}
            },
            "tin leaves no choice of color",
        ),
        (
            {"forms": KIND["forms"] | {"tin": {"bullets": ["Tin."], "options": {"size": []}}}},
            "tin has unknown options: size",
        ),
    ],
)
def test_mistakes_are_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=rf"^light\.yaml: kinds\.lamps.*{message}"):
        read(tmp_path, KIND | change)


def test_what_is_no_yaml_is_named(tmp_path: Path) -> None:
    path = tmp_path / "light.yaml"
    path.write_text("kinds: [", "utf-8")
    with pytest.raises(UserError, match=r"/light\.yaml, line 2, column 1 is not valid YAML: "):
        read_table(path, Department)


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ("I need {np}{options}.", "must have one of budget, limit, money"),
        ("I need {np}{limit}.", "must have one of choices, named, options"),
        ("I need {np}{options}{limit}.{budget}", "must have one of budget, limit, money"),
        ("I need something{options}{limit}.", "must have one of Bare, bare, np, plural, short"),
        ("I need {short}{options}{limit}.", "must have both or none of short and must"),
        ("I need {np}{options}{limit}{rest}.", "has unknown gaps: rest"),
    ],
)
def test_wishes_say_all(tmp_path: Path, wish: str, message: str) -> None:
    path = tmp_path / "phrases.yaml"
    path.write_text(yaml.safe_dump(phrases().model_dump(mode="json") | {"wishes": [wish]}), "utf-8")
    with pytest.raises(UserError, match=rf"^phrases\.yaml: .*{message}"):
        read_table(path, Phrases)


def test_option_without_words() -> None:
    with pytest.raises(UserError, match=r"phrases\.yaml: options: .* no words for taste 'sour'"):
        phrases().for_option("taste", "sour")


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [PHRASES, *sorted(DEPARTMENTS.glob("*.yaml"))], ids=lambda p: p.name
)
def test_no_key_is_given_twice(path: Path) -> None:
    """YAML would silently keep the last one."""
    nodes = [yaml.compose(path.read_text("utf-8"), yaml.SafeLoader)]
    mappings = 0
    while nodes:
        node = nodes.pop()
        if isinstance(node, yaml.MappingNode):
            mappings += 1
            keys = Counter(key.value for key, _ in node.value)
            assert max(keys.values()) == 1, (node.start_mark.line, keys.most_common(1))
            nodes += [value for _, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            nodes += node.value
    assert mappings > 1


def test_the_shop_is_large_enough() -> None:
    assert len(departments()) == 16
    assert len(kinds()) == 97
    assert all(5 <= len(department.kinds) <= 9 for department in departments())
    brands = [brand for department in departments() for brand in department.brands]
    assert len(set(brands)) == len(brands) == 160
    names = [(kind.noun, department.category) for department, kind in kinds().values()]
    assert len(set(names)) == len(names)


def test_wishes_vary() -> None:
    table = read_table(PHRASES, Phrases)
    assert len(set(table.wishes)) == len(table.wishes) >= 25
    assert len(set(table.limits)) >= 8
    assert len(set(table.budgets)) >= 6


def test_each_option_has_words_and_all_words_are_used() -> None:
    used = {
        phrases().for_option(name, value)
        for _, kind in kinds().values()
        for name, values in kind.pools()
        for value in values
    }
    assert used == set(phrases().options)


@pytest.mark.parametrize("name", kinds())
def test_values_and_attributes_can_be_told_apart(name: str) -> None:
    kind = kinds()[name][1]
    for option, values in kind.pools():
        assert not [pair for pair in combinations(values, 2) if alike(*pair)], option
    attributes = (*kind.forms, *kind.traits)
    assert not [pair for pair in combinations(attributes, 2) if alike(*pair)]
    # Words before the noun must not end with its first word: "fast charging charging cable".
    before = [
        each for each in (*kind.forms.values(), *kind.traits.values()) if each.role in ("is", "of")
    ]
    assert not [each.name for each in before if each.name.split()[-1] == kind.noun.split()[0]]
