"""Goals are the original's, except for the random draws, which are pinned."""

import random
from collections import Counter

import pytest

from tasks.webshop.data.files import read_listings
from tasks.webshop.data.goal_table import (
    goal_sha256,
    people_goal,
    price_limit,
    template_goal,
    template_goals,
)
from tasks.webshop.data.listings import Listing, Wish
from tests.tasks.webshop.worlds import (
    goal,
    needs_recordings,
    product,
    public_files,
    recorded_goal,
    recordings,
)

TEMPLATE = Wish("Find me dishwasher safe mugs", ("dishwasher safe",))
PEOPLE = Wish("i want a red mug.", ("dishwasher safe",), ("red",))


def test_a_template_gives_a_goal_for_every_choice() -> None:
    listing = Listing(product(), TEMPLATE)
    assert template_goals(listing) == 4
    goals = [template_goal(listing, number, 9.5) for number in range(4)]
    assert [goal.options for goal in goals] == [
        {"color": color, "size": size} for color in ("red", "blue") for size in ("8", "12")
    ]
    assert {goal.price_upper for goal in goals} <= {20.0, 30.0, 40.0, 10.0}
    assert len({goal.price_upper for goal in goals}) == 1
    first = goals[0]
    assert first.instruction == (
        "Find me dishwasher safe mugs with color: red, and size: 8, "
        f"and price lower than {first.price_upper:.2f} dollars"
    )
    for number in (-1, 4):
        with pytest.raises(IndexError):
            template_goal(listing, number, 9.5)


def test_a_product_without_options_has_one_goal() -> None:
    listing = Listing(product(options={}), TEMPLATE)
    assert template_goals(listing) == 1
    text = template_goal(listing, 0, 5000.0).instruction
    assert text == "Find me dishwasher safe mugs"
    assert template_goals(Listing(product())) == 0


def test_people_ask_in_their_own_words() -> None:
    found = people_goal(Listing(product(), None, (PEOPLE,)), 0, 9.5)
    assert found.instruction.startswith("i want a red mug, and price lower than ")
    assert found.options == ("red",)


@pytest.mark.parametrize("price", [0.0, 9.99, 10.0, 100.0, 955.0, 979.99])
def test_limits_are_the_higher_of_two_of_the_nearest_four(price: float) -> None:
    nearest = [limit for limit in range(10, 1000, 10) if limit > price][:4]
    drawn = Counter(price_limit(price, random.Random(seed)) for seed in range(600))
    assert set(drawn) == {float(limit) for limit in nearest[1:]}
    assert drawn.most_common(1)[0][0] == nearest[-1]


@pytest.mark.parametrize("price", [980.0, 989.99, 990.0, 5000.0])
def test_the_dearest_have_no_limit(price: float) -> None:
    assert price_limit(price, random.Random(0)) is None


def test_any_change_of_a_goal_changes_its_hash() -> None:
    goals = [
        goal(),
        goal(asin="B000000002"),
        goal(instruction="a mug"),
        goal(attributes=()),
        goal(options={"color": "red"}),
        goal(options=("red", "8")),
        goal(price_upper=None),
    ]
    assert len({goal_sha256(one) for one in goals}) == len(goals)


@pytest.mark.slow
@needs_recordings
def test_the_public_goals_are_the_originals_but_for_the_limit() -> None:
    """All 6,910 synthetic and 13 human goals, with text, attributes and options."""
    import json

    ours: dict[str, Counter[str]] = {"synthetic": Counter(), "human": Counter()}
    for listing in read_listings(public_files()):
        price = listing.product.prices[0]
        for number in range(template_goals(listing)):
            ours["synthetic"][_key(template_goal(listing, number, price))] += 1
        for number in range(len(listing.people)):
            ours["human"][_key(people_goal(listing, number, price))] += 1
    for name, found in ours.items():
        goals = json.loads((recordings() / f"world_{name}.json").read_bytes())["goals"]
        assert Counter(_key(recorded_goal(data)) for data in goals) == found
    assert (ours["synthetic"].total(), ours["human"].total()) == (6910, 13)


def _key(goal: object) -> str:
    from tasks.webshop.data.goals import Goal

    assert isinstance(goal, Goal)
    text = goal.instruction.split(", and price lower than ")[0]
    return repr((goal.asin, text, goal.attributes, sorted(goal.option_values)))
