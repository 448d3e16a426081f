"""Shared parts of figures and self-contained pages, and the page of training curves."""
