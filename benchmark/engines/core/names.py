"""Names of engines, scripted policies and data types, without importing any of them."""

from typing import Final

LOADING: Final = ("vllm", "transformers")
"""Engines that load a model in this process, with a selectable data type."""
ENGINES: Final = (*LOADING, "openai")
"""Engines whose responses come from a model."""
POLICIES: Final = ("expert", "random")
"""Scripted policies, which need no model."""
FLOATS: Final = ("float32", "bfloat16", "float16")
"""Data types of weights and activations."""
DTYPES: Final = ("auto", *FLOATS)
"""The same, as accepted by options."""
FLASHINFER_SAMPLER: Final = "VLLM_USE_FLASHINFER_SAMPLER"
"""Environment variable: whether vLLM compiles a sampler at startup, which needs nvcc. Requests here
are greedy or seeded, and that sampler supports neither."""
