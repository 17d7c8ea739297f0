"""The vendor's host and the whole way on it: compiler, runners, locate, cure."""
