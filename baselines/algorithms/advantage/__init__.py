"""First dimension: advantages. One file a choice; `groups.py` is what several share."""

from baselines.algorithms.part import load_choices

load_choices(__name__, __path__)
