"""Commands for authors of tasks."""
