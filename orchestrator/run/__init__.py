"""One run, from its inputs to its result files: what compare and watch have in common."""
