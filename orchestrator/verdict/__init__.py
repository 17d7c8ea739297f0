"""Limits, pass or fail per row, the first divergence, suspects and explanations."""
