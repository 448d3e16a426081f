"""The transformers engine, its decoder, and shared prompt prefixes."""
