"""Reads the content of a pull request within stated bounds."""
