"""What is written of a run's rows: tables, result.json, reports, the difference of two runs."""
