"""The transformers engine, its decoder and what prompts share."""
