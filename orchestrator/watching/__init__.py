"""Rows as dump files arrive: what changes on disk, which files are whole, when a run has ended."""
