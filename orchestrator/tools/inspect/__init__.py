"""Describes the contents of a file or a tree: headers, tensors, statistics, damage."""
