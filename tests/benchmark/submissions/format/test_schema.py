"""The schema of `submission.json`, as published next to the submissions."""

import json
from pathlib import Path

from benchmark.submissions.format.schema import Submission

SCHEMA = Path(__file__).parents[4] / "submissions" / "schema.json"
OF_THE_CODE = json.dumps(Submission.model_json_schema(), indent=2, sort_keys=True) + "\n"
AGAIN = f"run: .venv/bin/python {Path(__file__).relative_to(SCHEMA.parents[1])}"


def test_the_published_schema_is_that_of_the_code() -> None:
    assert SCHEMA.read_text("utf-8") == OF_THE_CODE, AGAIN


def test_the_schema_takes_no_other_fields_and_no_numbers_of_results() -> None:
    schema = json.loads(OF_THE_CODE)
    objects = [schema, *schema["$defs"].values()]
    assert all(one["additionalProperties"] is False for one in objects)
    names = {name for one in objects for name in one["properties"]}
    assert not names & {"success", "score", "reward", "collapse_rate", "worst_seed"}


def test_a_prepared_submission_keeps_the_schema(policy: Path, trained: Path) -> None:
    for folder in (policy, trained):
        content = (folder / "submission.json").read_text("utf-8")
        assert Submission.model_validate_json(content).model_dump_json(indent=2) + "\n" == content


if __name__ == "__main__":
    SCHEMA.write_text(OF_THE_CODE, "utf-8")
