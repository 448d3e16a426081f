"""A training run from its first update to its last checkpoint."""
