"""Names of engines, scripted policies and data types; nothing is imported to know them."""

from typing import Final

LOADING: Final = ("vllm", "transformers")
"""Engines that load a model in this process, in a data type that can be chosen."""
ENGINES: Final = (*LOADING, "openai")
"""Engines whose responses are a model's."""
POLICIES: Final = ("expert", "random")
"""Scripted policies, which need no model."""
FLOATS: Final = ("float32", "bfloat16", "float16")
"""Data types of weights and activations."""
DTYPES: Final = ("auto", *FLOATS)
"""The same, as options take them."""
FLASHINFER_SAMPLER: Final = "VLLM_USE_FLASHINFER_SAMPLER"
"""Environment variable: whether vLLM compiles a sampler when it starts, which needs nvcc. Requests
here are greedy or have seeds, and that sampler serves neither."""
