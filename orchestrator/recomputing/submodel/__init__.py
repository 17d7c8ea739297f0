"""Cuts a part out of the original model: its nodes, the values that cross its border, and its
files."""
