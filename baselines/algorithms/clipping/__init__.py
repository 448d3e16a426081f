"""Second dimension: importance ratios of new to old policy, and how they are limited.

A rule is one file with one class. Its `losses` takes (N, T) matrices and returns the loss of each
token, to be minimized; the third dimension (`aggregation`) reduces them to one number. The gradient
flows through `log_probs` alone. With l = log_prob - old_log_prob clamped to -20..20 (no gradient
beyond), the ratio is w = exp(l), and A is the token's advantage. Tokens whose mask is 0 get loss 0
and no gradient, whatever their values.
"""

from baselines.algorithms.part import load_choices

load_choices(__name__, __path__)
