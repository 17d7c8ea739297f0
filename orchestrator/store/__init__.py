"""Rows at rest: the SQLite store and the writers of tables."""
