"""One-line messages about schema violations."""

import json
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from pydantic import ValidationError

from tasks.errors import UserError
from tasks.strict import MAX_DEPTH, MAX_YAML, Strict, first_fault, parse_yaml, read_yaml


class Versioned(Strict):
    schema_version: Literal[2]
    name: str


def fault(**fields: Any) -> str:
    with pytest.raises(ValidationError) as error:
        Versioned.model_validate_json(json.dumps(fields))
    return first_fault(error.value)


def test_an_unknown_field_comes_before_a_missing_one() -> None:
    assert fault(schema_version=2, nmae="a") == "nmae: Extra inputs are not permitted"
    assert fault(schema_version=2) == "name: Field required"


def test_another_version_comes_first_and_says_what_to_do() -> None:
    assert fault(schema_version=1, nmae="a") == (
        "schema_version: it is 1, and only 2 can be read; it is older than this version of "
        "arlarena-bench: make it again, or read it with the version that made it"
    )
    assert fault(schema_version=3) == (
        "schema_version: it is 3, and only 2 can be read; it was made by a newer version of "
        "arlarena-bench: update"
    )


@pytest.mark.parametrize("version", ["1", -1, 10**9, None, True, 1.5])
def test_what_is_no_version_is_not_repeated(version: object) -> None:
    assert fault(schema_version=version, name="a") == "schema_version: it must be 2"


MERGED = """
a: &a {x: 1, y: 1}
inner: {deep: &b {<<: *a, x: 2}}
c: {<<: *b, y: 3}
d: {<<: *a, <<: *b}
"""


def test_a_key_that_is_given_twice_is_refused_and_one_that_overrides_a_merged_one_is_not() -> None:
    found = parse_yaml(MERGED)
    assert found == yaml.safe_load(MERGED)
    assert found["c"] == {"x": 2, "y": 3}
    with pytest.raises(yaml.MarkedYAMLError, match="'x' is given twice"):
        parse_yaml(MERGED + "e: {<<: *a, x: 1, x: 2}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: [1,\nb: 2\n", ", line 3, column 1 is not valid YAML: did not find"),
        (b"a: 1\na: 2\n", ", line 2, column 1 is not valid YAML: 'a' is given twice"),
        (b"a: \x00", " is not valid YAML: unacceptable character #x0000: control"),
        (b"a: 2026-02-30\n", " is not valid YAML: day is out of range for month"),
        (b"a: " + b"9" * 5000, " is not valid YAML: Exceeds the limit (4300 digits)"),
        *(
            (f"a: !!{tag}".encode(), " is not valid YAML: a value is not of the type that its tag")
            for tag in ("bool maybe", "int ''", "timestamp x")
        ),
        # With this many, libyaml's own composer crashes the process.
        (b"[" * 30_000 + b"]" * 30_000, ", line 1, column 65 is not valid YAML: nested more than"),
        (b"a: " + b"{a: " * 30_000, ", line 1, column 256 is not valid YAML: nested more than 64"),
        (b"- " * 30_000 + b"a", ", line 1, column 129 is not valid YAML: nested more than 64 deep"),
        (b"a: \xff", " cannot be read: not UTF-8 text"),
        (b"#" * MAX_YAML + b"\n", " is longer than 1,048,576 bytes"),
    ],
)
def test_a_file_that_is_not_yaml_is_one_line_with_the_place(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "file.yaml"
    path.write_bytes(content)
    with pytest.raises(UserError) as refused:
        read_yaml(path)
    line = str(refused.value)
    assert line.startswith(f"{path}{message}")
    assert "\n" not in line
    assert "unicode string" not in line


def test_what_is_nested_as_deep_as_allowed_is_read() -> None:
    found = parse_yaml("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    for _ in range(MAX_DEPTH - 1):
        (found,) = found
    assert found == []


def test_a_yaml_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.yaml cannot be read: No such file or directory$"):
        read_yaml(tmp_path / "none.yaml")
