"""OpenAI-compatible servers, and weights sent to those of vLLM."""
