"""The page of one entry: its header, its tables, how to run it again."""
