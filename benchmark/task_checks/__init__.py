"""Checks of a task without a model, and the pins of its panels."""
