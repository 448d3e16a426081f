"""The page of one entry: its head, its tables, how to run it again."""
