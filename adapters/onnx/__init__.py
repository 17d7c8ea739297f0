"""Golden data from ONNX models: every node's outputs, computed by onnxruntime (or onnx's own
reference) in a child process.
"""
