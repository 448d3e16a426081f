"""OpenAI-compatible servers, and weight updates for vLLM servers."""
