"""The episodes of runs as hashes, and how alike two runs are."""
