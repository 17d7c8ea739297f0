"""From two models to the operator that went wrong: planned, run step by step with the other
commands, resumed where it stopped.
"""
