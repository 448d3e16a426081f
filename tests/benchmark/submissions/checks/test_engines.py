"""Facts that engines report are accepted; `tampering/` has those that they cannot report."""

from typing import Any

import pytest

from tests.benchmark.submissions.conftest import Copies
from tests.support.submissions.small import check


@pytest.mark.parametrize(
    "facts",
    [
        {"kind": "vllm", "dtype": "bfloat16", "device": "cuda:0", "context": 4096},
        {"kind": "transformers", "dtype": "float32", "device": "cpu", "opened": "<think>"},
        {"kind": "openai", "server": "vllm", "context": None},
        {
            "kind": "vllm",
            "dtype": "bfloat16",
            "batch_invariant": True,
            "model_args": {
                "quantization": "fp8",
                "cudagraph_capture_sizes": [*range(400)],
                "chat_template": "/home/a~b+c,d/*.jinja",
                "hf_overrides": {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
            },
        },
    ],
)
def test_facts_of_engines(facts: dict[str, Any], copies: Copies) -> None:
    copy = copies("trained")
    copy.manifest(lambda run: run.update(engine=facts))
    assert not [each for each in check(copy.folder).findings if each.field.startswith("engine")]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"a": "two words"}, "visible ASCII characters without blanks"),
        ({"a" * 257: 1}, "at most 256 each"),
        ({"x": [0] * 1_500}, "and 2,000 in all"),
        ({"a": "re-run-by-maintainers"}, "'re-run' is what the board says of entries"),
    ],
)
def test_arguments_that_are_not_shown(
    arguments: dict[str, Any], problem: str, copies: Copies
) -> None:
    """Any number of values is checked in seconds."""
    copy = copies("trained")
    facts = {"kind": "vllm", "dtype": "bfloat16", "model_args": arguments}
    copy.manifest(lambda run: run.update(engine=facts))
    (finding,) = (each for each in check(copy.folder).findings if each.field == "engine.model_args")
    assert problem in finding.problem
