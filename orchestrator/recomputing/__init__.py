"""Computes operators again from the device's recorded inputs, with the nodes of the original model,
and measures how far the device's output is from the result.
"""
