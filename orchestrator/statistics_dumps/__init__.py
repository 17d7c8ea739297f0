"""Statistics in place of tensors (``dump_data`` ``stats``): reads the CSV files, computes those of
golden data, and compares both.
"""
