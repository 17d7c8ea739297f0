"""Hostile and damaged input for every reader of goldwatch: mutations, an independent judge, and the
loop that runs them (scripts/fuzz).
"""
