"""Text that fits a terminal and reads well: columns, long names made shorter, lists, counts and
sizes in sentences.
"""
