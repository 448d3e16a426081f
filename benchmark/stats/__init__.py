"""Intervals, paired comparison, bootstrap and survival: the only statistics of the project."""
