"""What scripts/frozen_results is made of: inputs, commands over them, what of results counts."""
