"""How much of an operator's error is its own: not inherited from its inputs, not rounding, and not
what all operators of its type add.

``estimator`` estimates it from the rows of a run, ``recomputed_estimates`` replaces the estimates
of outputs that were computed again, and ``tensor_checks`` corrects the rest by reading tensors.
"""
