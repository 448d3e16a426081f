"""Strict schemas for external input, and one-line messages about violations."""

from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from tasks.errors import UserError, os_error_as
from tasks.texts import first_line, on_one_line

YAML: Final = (".yaml", ".yml")
"""How names of YAML files end."""
MAX_YAML: Final = 2**20
"""Longest accepted YAML file, in bytes."""
MAX_DEPTH: Final = 64
"""Mappings and lists in each other that are read: thousands end the process inside libyaml."""
_DIGITS: Final = 20
"""Of a number of 64 bits, with its sign."""
# The loader of libyaml is eight times as fast.
_MERGE: Final = "tag:yaml.org,2002:merge"
_LOADER: Final = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader


class _Loader(_LOADER):  # type: ignore[misc, valid-type]
    """Refuses a key that is given twice: of two, YAML takes the last one without a word."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._looked_at: set[int] = set()

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Add merged mappings (`<<`) to one, whose own keys are there beside what they override.

        Raises:
            yaml.MarkedYAMLError: It has a key of its own twice.
        """
        if id(node) not in self._looked_at:
            self._looked_at.add(id(node))
            seen = set()
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                    continue
                if (key.tag, key.value) in seen:
                    problem = f"{key.value!r} is given twice"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                seen.add((key.tag, key.value))
        super().flatten_mapping(node)


class Strict(BaseModel):
    """A schema without extra fields, without coercion, without changes."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def parse_yaml(text: str) -> Any:
    """Parse YAML without aliases of Python objects.

    Raises:
        yaml.YAMLError: It is not YAML, a mapping has a key twice, it is nested more than
            `MAX_DEPTH` deep, or a number or date in it cannot be one.
    """
    try:
        _check_depth(text)
        return yaml.load(text, _Loader)  # noqa: S506 - it is a safe loader
    except ValueError as error:
        raise yaml.YAMLError(str(error)) from error
    except (LookupError, AttributeError) as error:  # PyYAML's, of `!!bool maybe`
        raise yaml.YAMLError("a value is not of the type that its tag (!!) names") from error


def _check_depth(text: str) -> None:
    """Refuse deep nesting by the parser's events, before anything is made of them.

    Raises:
        yaml.YAMLError: It is not YAML up to there, or is nested too deep.
    """
    depth = 0
    event: Any
    for event in yaml.parse(text, _LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            problem = f"nested more than {MAX_DEPTH} deep"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)


def read_yaml(path: Path) -> Any:
    """The content of a YAML file of at most `MAX_YAML` bytes.

    Raises:
        UserError: It cannot be read, is too long, or is not YAML; line and column are named.
    """
    with os_error_as(f"{path} cannot be read"), path.open("rb") as file:
        content = file.read(MAX_YAML + 1)
    if len(content) > MAX_YAML:
        raise UserError(f"{path} is longer than {MAX_YAML:,} bytes")
    try:
        return parse_yaml(content.decode())
    except UnicodeDecodeError as error:
        raise UserError(f"{path} cannot be read: not UTF-8 text") from error
    except yaml.YAMLError as error:
        raise UserError(not_yaml(path, error)) from error


def not_yaml(path: Path, error: Exception) -> str:
    """What a parser says of a YAML file, as one line with the place.

    PyYAML calls every text `<unicode string>` and spreads the place over several lines.
    """
    mark = getattr(error, "problem_mark", None)
    where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    reason = getattr(error, "problem", None) or first_line(error)
    return f"{path}{where} is not valid YAML: {on_one_line(reason)}"


def whole_number(digits: str) -> int:
    """Read a whole number that arithmetic can take, for `json.loads(parse_int=)`.

    A Python integer has no end, and everything that makes a float of it raises OverflowError.

    Raises:
        ValueError: It has more than 64 bits.
    """
    if len(digits) > _DIGITS or not -(2**63) <= (number := int(digits)) < 2**64:
        raise ValueError(f"the number {digits[:_DIGITS]}... is too large")
    return number


def first_fault(error: ValidationError) -> str:
    """What is wrong, as one line: the field and the reason.

    Another version of the schema comes first, as it explains all else; then an unknown field, which
    often explains why another one is missing.
    """
    faults = error.errors(include_url=False)
    for fault in faults:
        if fault["loc"] == ("schema_version",) and fault["type"] == "literal_error":
            return _other_version(fault["input"], int(fault["ctx"]["expected"]))
    fault = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
    where = ".".join(str(part) for part in fault["loc"])
    return f"{where}: {fault['msg']}" if where else fault["msg"]


def _other_version(given: object, read: int) -> str:
    if type(given) is not int or not 0 < given < 1000:
        return f"schema_version: it must be {read}"
    fix = (
        "it is older than this version of arlarena-bench: make it again, or read it with the "
        "version that made it"
        if given < read
        else "it was made by a newer version of arlarena-bench: update"
    )
    return f"schema_version: it is {given}, and only {read} can be read; {fix}"
