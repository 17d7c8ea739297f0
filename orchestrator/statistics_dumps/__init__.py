"""Statistics of tensors in place of tensors (``dump_data`` ``stats``): the CSV files read, golden
data's own, and what differs.
"""
