"""Wishes: fulfilled literally by their own product, which the search can find."""

import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz import fuzz, utils

from tasks.seeding import canonical_json, sha256_text, stable_seed
from tasks.webshop.data.goals import Goal
from tasks.webshop.data.products import Product
from tasks.webshop.generator.catalogue import generate_catalogue
from tasks.webshop.generator.noun_phrases import noun_phrase, with_quantity
from tasks.webshop.generator.tables import kinds
from tasks.webshop.generator.wishes import draw_goal
from tasks.webshop.search.document import document_text
from tasks.webshop.search.index import Index, build_index

PRODUCTS = generate_catalogue(0, 1600)
GOALS = [
    draw_goal(product, random.Random(stable_seed("test-wishes", number)))
    for number, product in enumerate(PRODUCTS)
]
PAIRS = list(zip(PRODUCTS, GOALS, strict=True))
SENTENCE = re.compile(r"[A-Za-z0-9 .,:;'!?$%-]+")
MONEY = re.compile(r"\$(\d+)(?:\.00)?|(\d+) dollars")


def fulfills(product: Product, goal: Goal) -> bool:
    """The rules of the task, implemented a second time."""
    texts = (product.title, " ".join(product.bullets), product.description)
    attributes = all(
        any(
            fuzz.token_set_ratio(known, wanted, processor=utils.default_process) > 85
            for known in product.attributes
        )
        or any(wanted in text.lower() for text in texts)
        for wanted in goal.attributes
    )
    assert isinstance(goal.options, dict)
    options = all(value in product.options.get(name, ()) for name, value in goal.options.items())
    return attributes and options and max(product.prices) <= (goal.price_upper or float("inf"))


def test_the_same_everywhere() -> None:
    data = [
        [goal.asin, goal.instruction, goal.attributes, goal.options, goal.price_upper]
        for goal in GOALS
    ]
    assert sha256_text(canonical_json(data)) == (
        "621d886cf8dc52eacfb36a64dea4e5fcb089454e2408d1eebadc81e18c4b9f6b"
    )


def test_each_product_fulfills_its_wish() -> None:
    for product, goal in PAIRS:
        assert goal.asin == product.asin
        assert fulfills(product, goal), goal


def test_not_every_product_of_the_kind_does() -> None:
    fulfilling = [
        sum(fulfills(other, goal) for other in PRODUCTS if other.query == product.query)
        for product, goal in PAIRS[:300]
    ]
    assert max(fulfilling) < 17
    assert sum(count == 1 for count in fulfilling) > 0.35 * len(fulfilling)


@given(st.integers(0, 1599), st.integers(0, 2**32))
def test_what_is_asked_stands_in_the_instruction(number: int, seed: int) -> None:
    product = PRODUCTS[number]
    goal = draw_goal(product, random.Random(seed))
    assert fulfills(product, goal)
    wish = goal.instruction.lower()
    noun = kinds()[product.query][1].noun
    assert noun in wish or product.query in wish
    assert 1 <= len(goal.attributes) <= 3
    assert len(set(goal.attributes)) == len(goal.attributes)
    assert all(attribute in wish for attribute in goal.attributes)
    assert all(re.search(rf"\b{re.escape(value)}\b", wish) for value in goal.option_values)
    amounts = [int(one or other) for one, other in MONEY.findall(goal.instruction)]
    assert amounts == ([] if goal.price_upper is None else [int(goal.price_upper)])


@given(st.integers(0, 1599), st.integers(0, 2**32))
def test_instructions_are_clean_sentences(number: int, seed: int) -> None:
    wish = draw_goal(PRODUCTS[number], random.Random(seed)).instruction
    assert SENTENCE.fullmatch(wish)
    assert len(wish) < 280
    assert wish == wish.strip()
    assert not re.search(r"  | [,.?]|,,|\.\.|\?\.|,\.", wish)
    assert not re.search(r"\b(\w+) \1\b", wish.lower())
    assert not re.search(
        r"\ba [aeio]\w|\ba (8|11|18)\b|\ban (?!fm|led|spf)[b-df-hj-np-tv-z]\w", wish
    ), wish
    assert not re.search(r"\b(a|an|some) (a|an|some)\b", wish)


def test_limits_are_round_and_close_above_the_price() -> None:
    for product, goal in PAIRS:
        if goal.price_upper is not None:
            price = max(product.prices)
            assert goal.price_upper % 5 == 0
            assert 0 < goal.price_upper - price <= (15 if price < 50 else 30 if price < 150 else 60)
    none = sum(goal.price_upper is None for goal in GOALS)
    assert 0.15 < none / len(GOALS) < 0.25


def test_wishes_vary() -> None:
    counts = Counter(len(goal.attributes) for goal in GOALS)
    assert all(counts[number] > 200 for number in (1, 2, 3))
    some = sum(len(goal.options) < len(product.options) for product, goal in PAIRS)
    assert 0.08 < some / len(GOALS) < 0.2
    assert len({goal.instruction for goal in GOALS}) > 1590
    starts = Counter(" ".join(goal.instruction.split()[:2]) for goal in GOALS)
    assert len([start for start, count in starts.items() if count > 5]) > 25
    lower = sum(goal.instruction[0].islower() for goal in GOALS)
    assert 0.1 < lower / len(GOALS) < 0.4
    terse = sum(goal.instruction[-1].isalnum() for goal in GOALS)
    assert 0.05 < terse / len(GOALS) < 0.4


@pytest.mark.slow
def test_the_search_helps_and_does_not_do_the_work(tmp_path: Path) -> None:
    """With the instruction as the query, the product is often first, and mostly in the top ten."""
    documents = (
        (each.asin, document_text(each.title, each.description, each.bullets, each.options))
        for each in PRODUCTS
    )
    build_index(documents, tmp_path / "index")
    index = Index.open(tmp_path / "index")
    ranks = []
    for product, goal in PAIRS:
        hits = [PRODUCTS[hit.position].asin for hit in index.search(goal.instruction)]
        ranks.append(hits.index(product.asin) if product.asin in hits else len(PRODUCTS))
    first = sum(rank == 0 for rank in ranks) / len(ranks)
    page = sum(rank < 10 for rank in ranks) / len(ranks)
    assert 0.45 < first < 0.7
    assert 0.9 < page < 0.995


def test_other_products_are_refused() -> None:
    product = PRODUCTS[0]
    with pytest.raises(ValueError, match=f"{product.asin} is not of the built-in.*: rowing boats"):
        draw_goal(replace(product, query="rowing boats"), random.Random(0))
    with pytest.raises(ValueError, match="not of the built-in catalogue: seaworthy"):
        draw_goal(replace(product, attributes=("seaworthy",)), random.Random(0))


def test_phrases_are_grammatical() -> None:
    """Phrases before and after the noun, for each way of counting."""
    said = set()
    for query, names in (
        ("water bottles", ("leak proof", "glass", "wide mouth")),
        ("running shoes", ("vegan", "arch support", "wide feet")),
        ("herbal teas", ("chamomile", "organic", "gift tin")),
    ):
        kind = kinds()[query][1]
        known = {**kind.forms, **kind.traits}
        for seed in range(200):
            rng = random.Random(seed)
            phrase = noun_phrase(kind, [known[name] for name in names], False, rng)
            said.add(with_quantity(kind, phrase, rng))
    assert {
        "a leak proof glass water bottle with a wide mouth",
        "a leak proof water bottle made of glass with a wide mouth",
        "a glass water bottle that is leak proof and has a wide mouth",
        "a water bottle that's leak proof, is made of glass and has a wide mouth",
        "a pair of vegan running shoes with arch support for wide feet",
        "running shoes that are vegan, have arch support and are suitable for wide feet",
        "some organic chamomile herbal tea in a gift tin",
        "some chamomile herbal tea that is organic and comes in a gift tin",
    } <= said
