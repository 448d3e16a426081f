"""Checks of training logs: counts, batches, panels, start, and what two logs have in common."""
