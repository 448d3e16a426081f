"""What engines say of themselves is accepted; `tampering/` has what they cannot say."""

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
                "hf_overrides": {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
            },
        },
    ],
)
def test_facts_of_engines(facts: dict[str, Any], copies: Copies) -> None:
    copy = copies("trained")
    copy.manifest(lambda run: run.update(engine=facts))
    assert not [each for each in check(copy.folder).findings if each.field.startswith("engine")]
