"""Pieces of a model, each run from inputs of its own, in one child process: :mod:`.run` starts it,
:mod:`.child` is its other side.
"""
