"""Damaged submissions are rejected with a message, or accepted with unchanged results.

`tests/benchmarks/scripts/submit_fuzz.py` does the same ten thousand times, to more kinds of
submissions, and counts the outcomes.
"""

import json
import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmark.submissions.format.findings import Rejected
from benchmark.submissions.reading.folder import read_submission
from tests.support.fuzz.damage import mutate
from tests.support.fuzz.oracle import classes_of, judged, proven, unclassed
from tests.support.submissions.small import check, copied

SLOW = settings(
    max_examples=150,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def damage_and_check(base: Path, untouched: dict[str, Any], number: int) -> None:
    """Damage a submission at random; if accepted, it must establish the same as the original."""
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(base, Path(folder))
        done = mutate(copy, random.Random(number))
        if done.refused is not None:
            assert done.refused.isprintable()
            return
        verdict = check(copy.folder)
        judged(verdict)
        if verdict.accepted:
            assert proven(verdict) == untouched
            assert unclassed(classes_of(base, copy.folder)) == []


@pytest.fixture(scope="module")
def shown(policy: Path, trained: Path) -> dict[Path, dict[str, Any]]:
    return {folder: proven(check(folder)) for folder in (policy, trained)}


@pytest.mark.slow
@pytest.mark.timeout(1200)
@SLOW
@given(number=st.integers(0, 2**32))
def test_nothing_that_a_policy_shows_can_be_damaged(
    policy: Path, shown: dict[Path, dict[str, Any]], number: int
) -> None:
    damage_and_check(policy, shown[policy], number)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@SLOW
@given(number=st.integers(0, 2**32))
def test_nothing_that_a_training_shows_can_be_damaged(
    trained: Path, shown: dict[Path, dict[str, Any]], number: int
) -> None:
    damage_and_check(trained, shown[trained], number)


@pytest.mark.slow
@settings(database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=JSON)
def test_any_json_for_a_submission_is_refused_politely(tmp_path: Path, value: Any) -> None:
    (tmp_path / "submission.json").write_text(json.dumps(value), "utf-8")
    with pytest.raises(Rejected) as rejected:
        read_submission(tmp_path)
    assert rejected.value.finding.text.isprintable()


@settings(database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary())
def test_any_bytes_for_a_submission_are_refused_politely(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "submission.json").write_bytes(content)
    with pytest.raises(Rejected) as rejected:
        read_submission(tmp_path)
    assert rejected.value.finding.text.isprintable()


@settings(
    max_examples=60, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data(), value=JSON)
def test_any_value_in_any_field_is_read_or_refused(
    policy: Path, tmp_path: Path, data: st.DataObject, value: Any
) -> None:
    content = json.loads((policy / "submission.json").read_bytes())
    parent: Any = content
    key: Any = data.draw(st.sampled_from(sorted(content)))
    while isinstance(parent[key], dict | list) and parent[key] and data.draw(st.booleans()):
        parent = parent[key]
        keys = sorted(parent) if isinstance(parent, dict) else list(range(len(parent)))
        key = data.draw(st.sampled_from(keys))
    parent[key] = value
    (tmp_path / "submission.json").write_text(json.dumps(content), "utf-8")
    try:
        submission = read_submission(tmp_path)
    except Rejected as rejected:
        assert rejected.finding.text.isprintable()
    else:
        stated = json.loads(submission.model_dump_json())
        assert stated == content
