"""The options of every command: one module for each family."""
