"""Bytes to numpy and back: element types, layouts, aligned blocks."""
