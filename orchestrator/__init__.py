"""Finds the first operator that goes wrong when a neural network moves to an Ascend NPU."""

__version__ = "0.1.0"
