"""The store of a run: an SQLite file of rows, and what is read from it."""
