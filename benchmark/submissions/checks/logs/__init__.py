"""Checks of training logs."""
