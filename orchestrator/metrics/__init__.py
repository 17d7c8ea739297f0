"""Numbers: metrics, one pair, a whole network."""
