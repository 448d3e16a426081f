"""One-line messages about violations of a schema."""

import json
from typing import Any, Literal

import pytest
import yaml
from pydantic import ValidationError

from tasks.strict import Strict, first_fault, parse_yaml


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
