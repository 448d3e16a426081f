"""Where responses come from: vLLM in process, OpenAI-compatible servers, transformers, scripts."""
