"""Finds out whether this machine can train, by inspecting it and by a short measured run."""
