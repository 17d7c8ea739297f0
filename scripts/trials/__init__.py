"""What scripts/verdict_trial and ``python scripts/trials`` are made of."""
