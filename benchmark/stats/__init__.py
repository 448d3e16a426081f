"""Intervals, paired comparison, bootstrap and survival: all statistics of the project."""
