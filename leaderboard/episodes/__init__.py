"""Recorded episodes, replayed on demand for display."""
