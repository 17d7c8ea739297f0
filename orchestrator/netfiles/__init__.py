"""Reads, edits and cuts the files of original models without their frameworks: prototxt text,
caffemodel, protobuf wire formats.
"""
