"""The first divergence, suspects and explanations, and what is said of them."""
