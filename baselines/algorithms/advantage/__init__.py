"""First dimension: advantages. One file per choice; `groups.py` has shared statistics."""

from baselines.algorithms.part import load_choices

load_choices(__name__, __path__)
