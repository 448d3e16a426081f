"""The built-in catalogue: determined by its seed, within its limits, without contradictions."""

import re
from collections import Counter, defaultdict

import pytest

from tasks.seeding import canonical_json, sha256_text
from tasks.webshop.data.products import LEVELS, Product
from tasks.webshop.generator.catalogue import generate_catalogue
from tasks.webshop.generator.tables import BUTTONS, kinds

COUNT = 1600
PRODUCTS = generate_catalogue(0, COUNT)
TEXT = re.compile(r"[A-Za-z0-9 .,:;'%-]+")
VALUE = re.compile(r"[a-z0-9][a-z0-9 .-]*")


def texts(product: Product) -> str:
    return " ".join((product.title, product.description, *product.bullets)).lower()


def test_the_same_everywhere() -> None:
    data = [product.to_data() for product in PRODUCTS]
    assert sha256_text(canonical_json(data)) == (
        "70ee9302d29613494a8c34a836bed89bae41c7f052e5d563519f354956fb2c6a"
    )


def test_a_smaller_one_is_the_beginning_of_a_larger_one() -> None:
    assert generate_catalogue(0, 100) == PRODUCTS[:100]
    assert generate_catalogue(0, 0) == ()
    other = generate_catalogue(1, 100)
    assert not {product.title for product in other} & {product.title for product in PRODUCTS[:100]}
    with pytest.raises(ValueError, match="-1 products"):
        generate_catalogue(0, -1)


def test_round_trip() -> None:
    assert all(Product.from_data(product.to_data()) == product for product in PRODUCTS[:200])


def test_numbers_and_names_are_unique() -> None:
    assert len({product.asin for product in PRODUCTS}) == COUNT
    assert len({product.title for product in PRODUCTS}) == COUNT
    assert all(re.fullmatch(r"[0-9]{4}", product.asin) for product in PRODUCTS)


def test_kinds_have_about_as_many_products() -> None:
    counts = Counter(product.query for product in PRODUCTS)
    assert set(counts) == set(kinds())
    assert set(counts.values()) == {16, 17}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_limits(seed: int) -> None:
    for product in generate_catalogue(seed, COUNT):
        assert 6 <= len(product.title.split()) <= 14
        assert len(product.title) <= 90
        assert 0 < len(product.description) <= 220
        assert 1 <= len(re.findall(r"\.(?: |$)", product.description)) <= 3
        assert 3 <= len(product.bullets) <= 5
        assert len(set(product.bullets)) == len(product.bullets)
        assert max(map(len, product.bullets)) <= 110
        assert 3 <= len(product.attributes) <= 6
        assert len(canonical_json(product.to_data())) < 1500
        for text in (product.title, product.description, *product.bullets):
            assert TEXT.fullmatch(text), text
            assert "  " not in text and " ," not in text
            assert not re.search(r"\b(\w+) \1\b", text.lower()), text
            assert not re.search(
                r"\b[Aa] [aeio]\w|\b[Aa]n (?!FM|LED|SPF|hour)[b-df-hj-np-tv-z]\w", text
            ), text


def test_attributes_are_told_and_no_others() -> None:
    """A kind's attributes that a product lacks occur nowhere in its texts."""
    lacking = 0
    for product in PRODUCTS:
        kind = kinds()[product.query][1]
        told = texts(product)
        for attribute in (*kind.forms, *kind.traits):
            assert (attribute in told) == (attribute in product.attributes), product.title
            lacking += attribute not in product.attributes
    assert lacking > COUNT


def test_attributes_go_together() -> None:
    for product in PRODUCTS:
        kind = kinds()[product.query][1]
        forms = [name for name in product.attributes if name in kind.forms]
        traits = [kind.traits[name] for name in product.attributes if name in kind.traits]
        assert len(forms) == 1
        assert all(trait.goes_with(forms[0]) for trait in traits)
        assert len({trait.name for trait in traits}) == len(traits)
        groups = [trait.group for trait in traits if trait.group]
        assert len(set(groups)) == len(groups)
        assert sum(trait.role == "for" for trait in traits) <= 1


def test_options_are_unambiguous() -> None:
    for product in PRODUCTS:
        assert len(product.options) <= 3
        values = [value for offered in product.options.values() for value in offered]
        assert len(set(values)) == len(values)
        assert all(VALUE.fullmatch(value) and value not in BUTTONS for value in values)
        assert not set(values) & set(product.attributes)
        assert all(2 <= len(offered) <= 7 for offered in product.options.values())
        pools = kinds()[product.query][1].pools()
        for name, offered in product.options.items():
            assert any(set(offered) <= set(pool) for known, pool in pools if known == name)


def test_sizes_are_next_to_each_other() -> None:
    sizes = ("xs", "small", "medium", "large", "xl", "xxl")
    shirts = [product for product in PRODUCTS if product.query == "t-shirts" and product.options]
    assert len(shirts) > 10
    for product in shirts:
        offered = product.options["size"]
        start = sizes.index(offered[0])
        assert offered == sizes[start : start + len(offered)]


def test_prices_are_plausible() -> None:
    ranges = 0
    by_kind = defaultdict(list)
    for product in PRODUCTS:
        low, high = kinds()[product.query][1].price
        assert low - 1 <= product.prices[0] <= high + 1, product.title
        assert round(product.prices[0] * 100) % 100 in (0, 49, 95, 99)
        if len(product.prices) == 2:
            ranges += 1
            assert product.options
            assert 1 < product.prices[1] / product.prices[0] < 1.8, product.title
        else:
            assert len(product.prices) == 1
        by_kind[product.query].append(product.prices[0])
    assert 0.07 < ranges / COUNT < 0.13
    # Far enough apart for a price limit to matter.
    assert all(max(prices) > 1.5 * min(prices) for prices in by_kind.values())


@pytest.mark.slow
def test_better_forms_cost_more() -> None:
    price = defaultdict(list)
    for product in generate_catalogue(0, 10_000):
        if product.query == "suitcases":
            price[product.attributes[0]].append(product.prices[0])
    mean = {form: sum(prices) / len(prices) for form, prices in price.items()}
    assert mean["abs plastic"] < mean["polycarbonate"] < mean["aluminum"]


def test_products_of_a_kind_vary() -> None:
    by_kind = defaultdict(list)
    for product in PRODUCTS:
        by_kind[product.query].append(product)
    for name, products in by_kind.items():
        assert len({product.attributes[0] for product in products}) >= 3, name
        assert len({product.attributes for product in products}) >= len(products) - 1, name
        assert len({product.title.lower().split()[-1] for product in products}) > 3, name
        brands = kinds()[name][0].brands
        used = {brand for product in products for brand in brands if brand in texts_of(product)}
        assert len(used) >= 5, name
    options = Counter(len(product.options) for product in PRODUCTS)
    assert 0.07 < options[0] / COUNT < 0.14
    assert options[1] > 400 and options[2] > 400 and options[3] > 20


def texts_of(product: Product) -> str:
    return f"{product.title} {product.description}"


def test_categories() -> None:
    for product in PRODUCTS:
        department, kind = kinds()[product.query]
        assert product.category == department.category == product.category.lower()
        levels = product.product_category.split(LEVELS)
        assert levels == [department.label, *kind.levels]
    assert len({product.product_category for product in PRODUCTS}) == len(kinds())
