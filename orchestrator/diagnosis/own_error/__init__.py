"""How much of an operator's error is its own, and how much came in with its inputs, is its
rounding, or what its type always does.

Each module answers one question; ``estimates`` puts the answers together, ``second_look`` asks
again where tensors tell more than rows.
"""
