"""Golden data from Caffe models."""
