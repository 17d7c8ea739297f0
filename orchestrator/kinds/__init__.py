"""Detects what a file or folder is by its content, and advises what to give instead."""
