"""Checks of training logs: counts, batches, panels, start, and similarity to other logs."""
