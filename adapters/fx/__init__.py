"""Golden data of PyTorch's FX graphs: a user's script runs on the CPU, and each node's values are
kept under TorchAir's names.
"""
