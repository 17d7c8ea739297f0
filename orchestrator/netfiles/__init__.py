"""The original model's own files read, edited and cut without its framework: prototxt text,
caffemodel, wire formats.
"""
