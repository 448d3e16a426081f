"""Hashes of episodes, and the similarity of two runs."""
