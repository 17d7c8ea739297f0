"""Converts dump files to npy, raw bytes and text, npy to dump files, and between layouts and
element types.
"""
