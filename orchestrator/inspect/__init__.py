"""What is in a file or a tree: headers, tensors, statistics, damage."""
