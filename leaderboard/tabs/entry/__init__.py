"""The page of one entry: its header, its tables, and how to reproduce it."""
