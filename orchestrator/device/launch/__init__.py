"""The user's program: prepared, started, signalled, ended."""
