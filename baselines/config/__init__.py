"""The configuration of a training run: its schema, and how recipes and scales are merged."""
