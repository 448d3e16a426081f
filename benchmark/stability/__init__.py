"""Stability metrics: per run, per recipe (over seeds), and between recipes."""
