"""Reads the content of a pull request within fixed limits."""
