"""Processes that compute for us, and functions of the user's in one of their own."""
