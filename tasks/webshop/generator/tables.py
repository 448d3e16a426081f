"""The word tables, `departments/*.yaml`: the products of the shop and their wording.

A kind of product is told by its forms, of which every product has exactly one (mostly the
material), and its traits, of which it has a few. The name of a form or trait is the attribute that
a shopper may ask for; it stands in each of its bullets.
"""

from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from tasks.errors import UserError
from tasks.strict import first_fault, read_yaml
from tasks.webshop.generator.wording import headline, slots_of, title_case

DEPARTMENTS = Path(__file__).parent / "departments"
LONGEST_BULLET = 110
BUTTONS = frozenset(
    {"buy now", "back to search", "< prev", "next >", "search"}
    | {"description", "features", "reviews", "attributes"}
)
"""What no option value may be called, for a click on it would be another click."""

Role = Literal["is", "of", "with", "in", "for"]
ROLES: tuple[Role, ...] = ("is", "of", "with", "in", "for")
_TITLE_SLOTS = frozenset({"brand", "line", "form", "pre", "w", "t1", "t2", "t3", "use"})
_DESCRIPTION_SLOTS = frozenset(
    {"brand", "a_brand", "A_brand", "form", "Form", "a_form", "A_form", "use"}
)
_CLOSING_SLOTS = frozenset({"brand"})


T = TypeVar("T", bound="Table")


class Table(BaseModel):
    """A part of a table: no other fields, no changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _with_names(value: Any) -> Any:
    """Tell each entry of a mapping its name; a mere list stands for an entry's bullets."""
    if not isinstance(value, dict):
        return value
    return {
        name: {"name": name, **({"bullets": body} if isinstance(body, list) else body)}
        if isinstance(body, list | dict)
        else body
        for name, body in value.items()
    }


_Named = BeforeValidator(_with_names)
_Lower = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9 %'&+.-]*$")]
_Sentence = Annotated[str, StringConstraints(pattern=r"^[A-Z0-9{].*\.$", max_length=LONGEST_BULLET)]
_Values = Annotated[tuple[_Lower, ...], Field(min_length=2)]


class Trait(Table):
    """Something that a shopper may ask for.

    Attributes:
        name: The attribute.
        role: How it is said: the thing is it, is made of it, comes with or in it, is meant for it.
        phrase: What stands after these words, with its article.
        bullets: Sentences that hold the attribute, of which a product shows one.
        group: Of traits of one group a product has at most one.
        only: The forms that it goes with; empty for all.
        unless: The forms that it does not go with.
    """

    name: _Lower
    role: Role = "is"
    phrase: str
    bullets: tuple[_Sentence, ...] = Field(min_length=1)
    group: str | None = None
    only: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _role_and_phrase(cls, value: Any) -> Any:
        """`with: a wide mouth` gives both role and phrase."""
        if not isinstance(value, dict):
            return value
        said = [role for role in ROLES if role in value]
        if len(said) > 1:
            raise ValueError(f"give only one of {' and '.join(said)}")
        body = {key: inner for key, inner in value.items() if key not in ROLES}
        if said:
            body["role"] = said[0]
            body["phrase"] = value[said[0]]
        return {"phrase": value.get("name"), **body}

    @model_validator(mode="after")
    def _holds_the_attribute(self) -> Self:
        for text in (self.phrase, *self.bullets):
            if self.name not in text.lower():
                raise ValueError(f"{text!r} does not hold {self.name!r}")
        return self

    @property
    def title(self) -> str:
        """As in a product's name."""
        return f"for {title_case(self.phrase)}" if self.role == "for" else headline(self.name)

    def excludes(self, other: "Trait") -> bool:
        """Whether no product has both: of one group, or both meant for someone."""
        grouped = self.group is not None and self.group == other.group
        return grouped or self.role == other.role == "for"

    def goes_with(self, form: str) -> bool:
        """Whether a product of this form may have it."""
        return form not in self.unless and (not self.only or form in self.only)


class Form(Trait):
    """What a product is made of, or what sort of its kind it is.

    Attributes:
        worth: From 0 to 1, how dear it is.
        options: Values that replace those of the kind, by the option's name; none for no choice.
    """

    role: Role = "of"
    worth: float = Field(default=0.5, ge=0, le=1)
    options: dict[str, tuple[_Lower, ...]] = {}


class Option(Table):
    """Something to choose on the product's page.

    Attributes:
        name: What is chosen.
        values: All values that occur.
        fewest: Fewest values that a product offers.
        most: Most.
        chance: Share of products that offer the choice.
        row: Whether a product's values are next to each other, as sizes are.
    """

    name: _Lower
    values: _Values
    fewest: int = Field(default=2, ge=2)
    most: int = Field(default=6, le=7)
    chance: float = Field(default=0.92, gt=0, le=1)
    row: bool = False


class ProductKind(Table):
    """A kind of product. Its name is its plural and what one would search for.

    Attributes:
        name: The plural.
        noun: The singular; the same as the plural if there is none.
        number: `one` is counted, `many` is a plural (shoes), `mass` is not counted (coffee).
        unit: What one buys of what is not counted, such as `pair of`.
        levels: Levels of the product category below the department.
        price: Lowest and highest price, in dollars.
        uses: What may follow `for` in a name or description.
        titles: Patterns of names.
        descriptions: Patterns of the description's first sentence.
        details: Bullets that say nothing to ask for.
        forms: By attribute.
        traits: By attribute.
        options: By name.
    """

    name: _Lower
    noun: _Lower
    number: Literal["one", "many", "mass"] = "one"
    unit: str = ""
    levels: tuple[str, ...] = Field(min_length=1)
    price: tuple[float, float]
    uses: tuple[str, ...] = Field(min_length=3)
    titles: tuple[str, ...] = Field(min_length=3)
    descriptions: tuple[str, ...] = Field(min_length=3)
    details: tuple[_Sentence, ...] = Field(min_length=3)
    forms: Annotated[dict[str, Form], _Named] = Field(min_length=2)
    traits: Annotated[dict[str, Trait], _Named] = Field(min_length=6)
    options: Annotated[dict[str, Option], _Named] = {}

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        check_slots(self.titles, _TITLE_SLOTS)
        check_slots(self.descriptions, _DESCRIPTION_SLOTS)
        for trait in self.traits.values():
            for form in (*trait.only, *trait.unless):
                if form not in self.forms:
                    raise ValueError(f"{trait.name} names an unknown form: {form}")
        if both := self.forms.keys() & self.traits.keys():
            raise ValueError(f"both form and trait: {', '.join(sorted(both))}")
        if not 0 < self.price[0] < self.price[1]:
            raise ValueError("the price must go from a lower to a higher one")
        self._check_values()
        return self

    def _check_values(self) -> None:
        """No value may be another click, or an attribute that one could take it for."""
        for form in self.forms.values():
            if unknown := form.options.keys() - self.options.keys():
                raise ValueError(f"{form.name} has unknown options: {', '.join(sorted(unknown))}")
            if lone := [name for name, values in form.options.items() if len(values) == 1]:
                raise ValueError(f"{form.name} leaves no choice of {', '.join(lone)}")
        owners: dict[str, str] = {}
        for name, values in self.pools():
            for value in values:
                if value in BUTTONS:
                    raise ValueError(f"{name} has a button's name: {value}")
                if value in self.forms or value in self.traits:
                    raise ValueError(f"{name} has an attribute's name: {value}")
                if owners.setdefault(value, name) != name:
                    raise ValueError(f"{value} is both {name} and {owners[value]}")

    def pools(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """All lists of values, with the option's name."""
        return (
            *((option.name, option.values) for option in self.options.values()),
            *(pool for form in self.forms.values() for pool in form.options.items()),
        )


def check_slots(patterns: tuple[str, ...], known: frozenset[str]) -> None:
    """Check that patterns have only gaps that will be filled.

    Raises:
        ValueError: One has another gap.
    """
    for pattern in patterns:
        if unknown := slots_of(pattern) - known:
            raise ValueError(f"{pattern!r} has unknown gaps: {', '.join(sorted(unknown))}")


class Department(Table):
    """A department of the shop.

    Attributes:
        category: Its name in lower case.
        label: First level of the product category.
        brands: From 0 to 1, how dear a brand is. All are invented.
        lines: Names of product lines.
        closings: Last sentences of descriptions.
        kinds: By plural.
    """

    category: _Lower
    label: str
    brands: dict[str, Annotated[float, Field(ge=0, le=1)]] = Field(min_length=6)
    lines: tuple[str, ...] = Field(min_length=6)
    closings: tuple[_Sentence, ...] = Field(min_length=3)
    kinds: Annotated[dict[str, ProductKind], _Named] = Field(min_length=1)

    @model_validator(mode="after")
    def _closings_have_known_gaps(self) -> Self:
        check_slots(self.closings, _CLOSING_SLOTS)
        return self


def read_table(path: Path, form: type[T]) -> T:
    """Read a table.

    Args:
        path: A YAML file.
        form: What it must be.

    Raises:
        UserError: It is not valid YAML, or a field is not what it should be; the file and the field
            are named.
    """
    try:
        return form.model_validate(read_yaml(path))
    except ValidationError as error:
        raise UserError(f"{path.name}: {first_fault(error)}") from error


@cache
def departments() -> tuple[Department, ...]:
    """All departments, by file name.

    Raises:
        UserError: A table is not what it should be, or two have a kind of the same name.
    """
    tables = tuple(read_table(path, Department) for path in sorted(DEPARTMENTS.glob("*.yaml")))
    names = [name for table in tables for name in table.kinds]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"{DEPARTMENTS.name}: more than one table has {', '.join(twice)}")
    return tables


@cache
def kinds() -> dict[str, tuple[Department, ProductKind]]:
    """All kinds with their department, by plural, in the order of the tables."""
    return {name: (table, kind) for table in departments() for name, kind in table.kinds.items()}
