"""Checks of a task without a model, and what is pinned of its panels."""
