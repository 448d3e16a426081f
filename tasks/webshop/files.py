"""Reads the public data files of WebShop, item by item: the full set does not fit into memory.

What is taken of a product, and how its texts are changed, is as in the original.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import ijson
from pydantic import BaseModel, ConfigDict, StringConstraints, TypeAdapter, ValidationError

from tasks.errors import UserError
from tasks.strict import first_fault
from tasks.webshop.listings import Listing, Wish
from tasks.webshop.products import Product

UNKNOWN_PRICE = 100.0
"""Dollars, where a product has no price."""
NO_ATTRIBUTE = "DUMMY_ATTR"
"""The attribute of a product of which none is known."""

_LONGEST_TEXT = 1_000_000
_LONGEST_ASIN = 10
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
    pricing: _Text | None
    customization_options: dict[str, list[_Value] | None] | _Text | None
    category: _Text
    query: _Text
    product_category: _Text


class _Instruction(_Loose):
    attributes: list[_Text]
    instruction: _Text | None = None
    instruction_attributes: list[_Text] = []


class _HumanInstruction(_Loose):
    instruction: _Text
    instruction_attributes: list[_Text]
    instruction_options: list[_Text]


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
    attributes = {
        asin: _check(_Instruction, value, files.attributes, asin)
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
        known = attributes.get(item.asin)
        yield Listing(
            _product(item, known, files.items),
            _template(known),
            tuple(_wish(wish) for wish in people.get(item.asin, []) if wish.instruction_attributes),
        )
    if not seen:
        raise UserError(f"{files.items} holds no products")


def _product(item: _Item, known: _Instruction | None, path: Path) -> Product:
    bullets = item.small_description
    return Product(
        asin=item.asin,
        title=item.name,
        description=item.full_description,
        bullets=tuple(bullets) if isinstance(bullets, list) else (bullets,),
        options=_options(item, path),
        prices=_prices(item, path),
        attributes=(NO_ATTRIBUTE,) if known is None else tuple(known.attributes),
        category=item.category,
        query=item.query.lower().strip(),
        product_category=item.product_category,
    )


def _options(item: _Item, path: Path) -> dict[str, tuple[str, ...]]:
    options = item.customization_options
    if not options:
        return {}
    if isinstance(options, str):
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
        raise _fault(path, item.asin, f"pricing: {item.pricing[:40]!r} is no price in dollars")
    return prices[:2]


def _template(known: _Instruction | None) -> Wish | None:
    if known is None or known.instruction is None:
        return None
    return Wish(known.instruction, tuple(known.instruction_attributes))


def _wish(wish: _HumanInstruction) -> Wish:
    return Wish(
        wish.instruction, tuple(wish.instruction_attributes), tuple(wish.instruction_options)
    )


def _stream(path: Path, object_of: bool = False) -> Iterator[tuple[Any, Any]]:
    """The (number, element) pairs of a file's array, or the (key, value) pairs of its object."""
    try:
        with path.open("rb") as file:
            first = file.read(1)
            if first != (b"{" if object_of else b"["):
                kind = "object" if object_of else "array"
                raise UserError(f"{path} must hold a JSON {kind}")
            file.seek(0)
            if object_of:
                yield from ijson.kvitems(file, "", use_float=True)
            else:
                yield from enumerate(ijson.items(file, "item", use_float=True))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    except (ijson.JSONError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is no valid JSON: {str(error)[:200]}") from error


def _check(schema: Any, value: Any, path: Path, asin: str) -> Any:
    try:
        if isinstance(schema, TypeAdapter):
            return schema.validate_python(value)
        return schema.model_validate(value)
    except ValidationError as error:
        raise _fault(path, asin, first_fault(error)) from error


def _fault(path: Path, asin: str, text: str) -> UserError:
    return UserError(f"{path}, product {asin[:40]}: {text}")
