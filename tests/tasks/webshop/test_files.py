"""The public files are parsed strictly; errors name file, product and field."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from tasks.errors import UserError
from tasks.webshop.data.files import NO_ATTRIBUTE, DataFiles, read_listings
from tasks.webshop.data.listings import Listing, Wish
from tests.tasks.webshop.worlds import needs_recordings, public_files

ITEM: dict[str, Any] = {
    "asin": "B000000001",
    "name": "Tin Mug",
    "full_description": "A mug.",
    "small_description": ["Holds 12 ounces ", "Dishwasher safe "],
    "pricing": "$9.5",
    "customization_options": {
        "Color": [{"value": " Red/White ", "image": None}, {"value": "Blue"}],
        "Size": None,
    },
    "category": "kitchen",
    "query": " Mugs ",
    "product_category": "Home \u203a Kitchen",
    "images": [],
}
KNOWN = {
    "B000000001": {
        "attributes": ["dishwasher safe"],
        "instruction": "Find me mugs",
        "instruction_attributes": ["dishwasher safe"],
    }
}
PEOPLE = {
    "B000000001": [
        {
            "instruction": "i want a red mug.",
            "instruction_attributes": ["dishwasher safe"],
            "instruction_options": ["red"],
            "worker_id": "x",
        },
        {"instruction": "any mug", "instruction_attributes": [], "instruction_options": []},
    ]
}


def write(folder: Path, items: Any, known: Any = KNOWN, people: Any = PEOPLE) -> DataFiles:
    """Write the three files; a text is written unchanged."""
    files = DataFiles(*(folder / f"{name}.json" for name in ("items", "ins", "people")))
    for path, content in zip(files.paths, (items, known, people), strict=True):
        path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return files


def read(folder: Path, **changes: Any) -> list[Listing]:
    """Parse one item with some fields changed."""
    return list(read_listings(write(folder, [ITEM | changes])))


def test_what_is_taken_of_a_product(tmp_path: Path) -> None:
    (listing,) = read(tmp_path)
    product = listing.product
    assert (product.title, product.description, product.query) == ("Tin Mug", "A mug.", "mugs")
    assert product.options == {"color": ("red | white", "blue")}
    assert product.prices == (9.5,)
    assert product.attributes == ("dishwasher safe",)
    assert listing.template == Wish("Find me mugs", ("dishwasher safe",))
    # A wish without attributes cannot be judged.
    assert listing.people == (Wish("i want a red mug.", ("dishwasher safe",), ("red",)),)
    assert Listing.from_data(json.loads(json.dumps(listing.to_data()))) == listing


@pytest.mark.parametrize(
    ("pricing", "prices"),
    [
        ("$1,299.00", (1299.0,)),
        ("$9.99 - $12.50", (9.99, 12.5)),
        ("$12.5 - $9", (12.5, 9.0)),
        ("$1 $2 $3", (1.0, 2.0)),
        ("", (100.0,)),
        (None, (100.0,)),
    ],
)
def test_prices(tmp_path: Path, pricing: str | None, prices: tuple[float, ...]) -> None:
    (listing,) = read(tmp_path, pricing=pricing)
    assert listing.product.prices == prices


def test_a_product_without_options_and_bullets_that_are_one_text(tmp_path: Path) -> None:
    for options in cast("tuple[Any, ...]", ("", None, {})):
        (listing,) = read(tmp_path, customization_options=options, small_description="One line")
        assert listing.product.options == {}
        assert listing.product.bullets == ("One line",)


def test_a_product_of_which_nothing_is_known(tmp_path: Path) -> None:
    (listing,) = read_listings(write(tmp_path, [ITEM], {}, {}))
    assert listing.product.attributes == (NO_ATTRIBUTE,)
    assert (listing.template, listing.people) == (None, ())


def test_gaps_that_the_original_allows(tmp_path: Path) -> None:
    item = {name: value for name, value in ITEM.items() if name != "pricing"}
    known = {"B000000001": {"instruction": "Find me mugs", "instruction_attributes": ["tin"]}}
    (listing,) = read_listings(write(tmp_path, [item | {"customization_options": []}], known))
    assert listing.product.prices == (100.0,)
    assert listing.product.options == {}
    assert listing.product.attributes == (NO_ATTRIBUTE,)
    assert listing.template == Wish("Find me mugs", ("tin",))


def test_white_space_before_the_first_bracket(tmp_path: Path) -> None:
    assert len(list(read_listings(write(tmp_path, "\n \t" + json.dumps([ITEM]))))) == 1


def test_deep_nesting_is_refused_at_once(tmp_path: Path) -> None:
    for text in ("[" * 1_000_000, '[{"asin":' * 100_000, "[" + '{"a":' * 100_000):
        with pytest.raises(UserError, match=r"items\.json has values nested 20 deep"):
            list(read_listings(write(tmp_path, text)))


def test_repeats_and_odd_numbers_are_left_out_as_in_the_original(tmp_path: Path) -> None:
    items = [ITEM, ITEM | {"name": "Again"}, ITEM | {"asin": "nan"}, ITEM | {"asin": "B0000000012"}]
    assert [listing.product.title for listing in read_listings(write(tmp_path, items))] == [
        "Tin Mug"
    ]


def test_markup_stays_text(tmp_path: Path) -> None:
    (listing,) = read(tmp_path, name="<script>alert(1)</script>")
    assert listing.product.title == "<script>alert(1)</script>"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pricing": "$cheap"}, r"items\.json, product B000000001: pricing: '\$cheap' is not a"),
        ({"pricing": "9.99"}, "pricing: '9.99' is not a price"),
        ({"pricing": "$1.2.3"}, "pricing: '.1.2.3' is not a price"),
        ({"pricing": "$" + "9" * 400}, "pricing: .* is not a price"),
        ({"pricing": 9.5}, "product B000000001: pricing: Input should be a valid string"),
        ({"name": None}, "product B000000001: name: "),
        ({"name": "x" * 1_000_001}, "product B000000001: name: "),
        ({"customization_options": "red"}, "customization_options: must be an object or empty"),
        (
            {"customization_options": {"a": [{"price": 1}]}},
            r"customization_options\.a\.0\.value: Field",
        ),
        ({"small_description": [1]}, "small_description"),
        ({"asin": 5}, "asin: Input should be a valid string"),
        ({"asin": "B00/../x"}, "asin: must be letters and digits"),
    ],
)
def test_a_wrong_field_is_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read(tmp_path, **changes)


def test_a_missing_field_is_named(tmp_path: Path) -> None:
    item = {name: value for name, value in ITEM.items() if name != "query"}
    with pytest.raises(UserError, match=r"items\.json, product B000000001: query: Field required"):
        list(read_listings(write(tmp_path, [item])))


@pytest.mark.parametrize(
    ("items", "known", "people", "message"),
    [
        ("", KNOWN, PEOPLE, r"items\.json is not valid JSON"),
        ("{}", KNOWN, PEOPLE, "items\\.json must be a JSON array"),
        ("[1", KNOWN, PEOPLE, r"items\.json, product number 0"),
        (json.dumps([ITEM])[:-1] + ",{", KNOWN, PEOPLE, "not valid JSON after product B000000001"),
        ("\ufeff[]", KNOWN, PEOPLE, r"items\.json is not valid JSON"),
        ("[", KNOWN, PEOPLE, r"items\.json is not valid JSON"),
        ("[]", KNOWN, PEOPLE, "items\\.json has no products"),
        ([5], KNOWN, PEOPLE, r"items\.json, product number 0"),
        ([ITEM], "[]", PEOPLE, "ins\\.json must be a JSON object"),
        (
            [ITEM],
            {"B000000001": {"attributes": 5}},
            PEOPLE,
            r"ins\.json, product B000000001: attributes",
        ),
        ([ITEM], KNOWN, {"B000000001": {}}, r"people\.json, product B000000001"),
        ([ITEM], KNOWN, {"B1": [{"instruction": "x"}]}, r"people\.json, product B1: 0\.instr"),
    ],
)
def test_a_malformed_file_is_named(
    tmp_path: Path, items: Any, known: Any, people: Any, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        list(read_listings(write(tmp_path, items, known, people)))


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    files = write(tmp_path, [ITEM])
    files.items.write_bytes(b'[{"asin": "\xff\xfe"}]')
    with pytest.raises(UserError, match=r"items\.json"):
        list(read_listings(files))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    files = write(tmp_path, [ITEM])
    files.people.unlink()
    with pytest.raises(UserError, match=r"people\.json cannot be read: No such file"):
        list(read_listings(files))


@needs_recordings
def test_the_public_thousand() -> None:
    listings = list(read_listings(public_files()))
    assert len(listings) == 1000
    assert sum(listing.template is not None for listing in listings) == 415
    assert sum(len(listing.people) for listing in listings) == 13
    assert sum(len(listing.product.prices) == 2 for listing in listings) == 93
