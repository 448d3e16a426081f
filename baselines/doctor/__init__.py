"""Finds out whether this machine can train: what it has, and a short run that measures it."""
