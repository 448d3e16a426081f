"""A training run: its configuration, how recipes and scales are merged, its layout on devices."""
