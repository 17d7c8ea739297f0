"""Dump files to npy, raw bytes and text, npy to dump files; any layout to any other, any element
type to any other.
"""
