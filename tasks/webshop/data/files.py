"""Reads WebShop's public data files item by item: the full set does not fit into memory.

What is taken of a product, and how its texts are changed, is as in the original.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import ijson
from pydantic import BaseModel, ConfigDict, StringConstraints, TypeAdapter, ValidationError

from tasks.errors import UserError
from tasks.webshop.data.listings import Listing, Wish
from tasks.webshop.data.products import Product

UNKNOWN_PRICE = 100.0
"""Dollars, where a product has no price."""
NO_ATTRIBUTE = "DUMMY_ATTR"
"""The attribute of a product of which none is known."""

_LONGEST_TEXT = 1_000_000
_LONGEST_ASIN = 10
_DEEPEST = 20
"""Levels of nested values; the files have about five."""
_NOT_A_NUMBER = re.compile(r"[^\d.]")
_HIGHEST_PRICE = 1e9

_Text = Annotated[str, StringConstraints(max_length=_LONGEST_TEXT)]


class _Loose(BaseModel):
    """The files hold more than is read; what is read must be right."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class _Value(_Loose):
    value: _Text


class _Item(_Loose):
    asin: _Text
    name: _Text
    full_description: _Text
    small_description: list[_Text] | _Text
    pricing: _Text | None = None
    customization_options: dict[str, list[_Value] | None] | list[_Value] | _Text | None
    category: _Text
    query: _Text
    product_category: _Text


class _Instruction(_Loose):
    attributes: list[_Text] | None = None
    instruction: _Text | None = None
    instruction_attributes: list[_Text] = []


class _HumanInstruction(_Loose):
    instruction: _Text
    instruction_attributes: list[_Text]
    instruction_options: list[_Text]


_Known = tuple[tuple[str, ...], Wish | None]
"""Attributes, and the wish that goals are made from."""
_NOTHING_KNOWN: _Known = ((NO_ATTRIBUTE,), None)
_HUMAN = TypeAdapter(list[_HumanInstruction])


@dataclass(frozen=True, slots=True)
class DataFiles:
    """The three files of one data set.

    Attributes:
        items: Products.
        attributes: Attributes and synthetic instructions by product.
        people: Instructions that people wrote, by product.
    """

    items: Path
    attributes: Path
    people: Path

    @property
    def paths(self) -> tuple[Path, Path, Path]:
        """All of them."""
        return self.items, self.attributes, self.people


def read_listings(files: DataFiles) -> Iterator[Listing]:
    """Read the products in the order of the file.

    As in the original, products whose number is `nan` or longer than ten characters and repeats
    of a number are left out.

    Raises:
        UserError: A file cannot be read or is malformed; file, product and field are named.
    """
    known = {
        asin: _known(_check(_Instruction, value, files.attributes, asin))
        for asin, value in _stream(files.attributes, object_of=True)
    }
    people = {
        asin: _check(_HUMAN, value, files.people, asin)
        for asin, value in _stream(files.people, object_of=True)
    }
    seen: set[str] = set()
    for number, value in _stream(files.items):
        name = value.get("asin") if isinstance(value, dict) else None
        item = _check(_Item, value, files.items, str(name or f"number {number}")[:40])
        if item.asin == "nan" or len(item.asin) > _LONGEST_ASIN or item.asin in seen:
            continue
        if not item.asin.isascii() or not item.asin.isalnum():
            raise _fault(files.items, item.asin, "asin: must be letters and digits")
        seen.add(item.asin)
        attributes, template = known.get(item.asin, _NOTHING_KNOWN)
        yield Listing(
            _product(item, attributes, files.items),
            template,
            tuple(_wish(wish) for wish in people.get(item.asin, []) if wish.instruction_attributes),
        )
    if not seen:
        raise UserError(f"{files.items} has no products")


def _product(item: _Item, attributes: tuple[str, ...], path: Path) -> Product:
    bullets = item.small_description
    return Product(
        asin=item.asin,
        title=item.name,
        description=item.full_description,
        bullets=tuple(bullets) if isinstance(bullets, list) else (bullets,),
        options=_options(item, path),
        prices=_prices(item, path),
        attributes=attributes,
        category=item.category,
        query=item.query.lower().strip(),
        product_category=item.product_category,
    )


def _options(item: _Item, path: Path) -> dict[str, tuple[str, ...]]:
    options = item.customization_options
    if not options:
        return {}
    if not isinstance(options, dict):
        raise _fault(path, item.asin, "customization_options: must be an object or empty")
    return {
        name.lower(): tuple(v.value.strip().replace("/", " | ").lower() for v in values)
        for name, values in options.items()
        if values is not None
    }


def _prices(item: _Item, path: Path) -> tuple[float, ...]:
    if not item.pricing:
        return (UNKNOWN_PRICE,)
    try:
        prices = tuple(float(_NOT_A_NUMBER.sub("", part)) for part in item.pricing.split("$")[1:])
    except ValueError:
        prices = ()
    if not prices or max(prices) > _HIGHEST_PRICE:
        raise _fault(path, item.asin, f"pricing: {item.pricing[:40]!r} is not a price in dollars")
    return prices[:2]


def _known(entry: _Instruction) -> _Known:
    """What is kept of an entry while the products are read: of a million of them, little."""
    attributes = (NO_ATTRIBUTE,) if entry.attributes is None else tuple(entry.attributes)
    if entry.instruction is None:
        return attributes, None
    return attributes, Wish(entry.instruction, tuple(entry.instruction_attributes))


def _wish(wish: _HumanInstruction) -> Wish:
    return Wish(
        wish.instruction, tuple(wish.instruction_attributes), tuple(wish.instruction_options)
    )


def _stream(path: Path, object_of: bool = False) -> Iterator[tuple[Any, Any]]:
    """The (number, element) pairs of a file's array, or the (key, value) pairs of its object."""
    last: Any = None
    try:
        with path.open("rb") as file:
            for key, value in _elements(path, file, object_of):
                last = value.get("asin", key) if isinstance(value, dict) else key
                yield key, value
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    except (ijson.JSONError, UnicodeDecodeError) as error:
        text = " ".join(str(error).split())[:200]
        after = "" if last is None else f" after product {str(last)[:40]}"
        raise UserError(f"{path} is not valid JSON{after}: {text}") from error


def _elements(path: Path, file: BinaryIO, object_of: bool) -> Iterator[tuple[Any, Any]]:
    """Build the elements of the outermost array or object one by one, none of them deep.

    `ijson.items` does the same, but takes memory that grows with the square of the depth.
    """
    depth, key, builder = 0, -1, ijson.ObjectBuilder()
    for event, value in ijson.basic_parse(file, use_float=True):
        if depth == 0 and event != ("start_map" if object_of else "start_array"):
            raise UserError(f"{path} must be a JSON {'object' if object_of else 'array'}")
        if event in ("start_map", "start_array"):
            depth += 1
            if depth > _DEEPEST:
                raise UserError(f"{path} has values nested {_DEEPEST} deep")
            if depth == 1:
                continue
        elif event in ("end_map", "end_array"):
            depth -= 1
            if depth == 0:
                return
        if depth == 1 and event == "map_key":
            key = value
            continue
        builder.event(event, value)
        if depth == 1:
            key = key if object_of else key + 1
            yield key, builder.value
            builder = ijson.ObjectBuilder()


def _check(schema: Any, value: Any, path: Path, asin: str) -> Any:
    try:
        if isinstance(schema, TypeAdapter):
            return schema.validate_python(value)
        return schema.model_validate(value)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        # Parts such as `list[str]` are types, not places.
        field = ".".join(str(part) for part in fault["loc"] if "[" not in str(part))
        raise _fault(path, asin, f"{field}: {fault['msg']}") from error


def _fault(path: Path, asin: str, text: str) -> UserError:
    return UserError(f"{path}, product {asin[:40]}: {text}")
