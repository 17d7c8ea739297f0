"""Rows as files arrive."""
