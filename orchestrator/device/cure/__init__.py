"""Which operators to compute in float32 for the network's outputs to be right, as the file that the
compiler takes.
"""
