"""Operators of a run computed again from the device's own inputs: which original nodes an op was
made from, its inputs as they were recorded, and what comes out (:mod:`goldwatch.operators`).
"""
