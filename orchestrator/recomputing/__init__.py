"""Operators of a run computed again from the device's own inputs: the original nodes of each op,
its recorded inputs, and how far the device's output is from the result.
"""
