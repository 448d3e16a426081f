"""The commands, one module each with a `run` function."""
