"""Verdicts on rows, from measurements, limits, other rows and recomputations; nothing here reads a
file.
"""
