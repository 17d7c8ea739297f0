"""Golden data from TensorFlow, and dump settings for npu_bridge."""
