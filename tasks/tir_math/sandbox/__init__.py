"""Runs Python written by a model: one interface, one isolated back end, two others."""
