"""Command-line options: one module per family of commands."""
