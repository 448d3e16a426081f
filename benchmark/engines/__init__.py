"""Inference engines: vLLM in process, OpenAI-compatible servers, transformers, scripts."""
