"""Pieces of a model, each run with its own inputs, in one child process: :mod:`.run` starts it,
:mod:`.child` is the other side.
"""
