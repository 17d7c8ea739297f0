"""What scripts/verdict_trial is made of."""
