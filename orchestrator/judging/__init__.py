"""Measurements, graph, limits and recomputations become verdicts: pure functions, nothing here
reads a file.
"""
