"""Compares one operator element by element: where its error is, what it looks like, all elements as
text.
"""
