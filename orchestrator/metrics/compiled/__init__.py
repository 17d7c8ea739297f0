"""The inner loop of the metrics as compiled code: built when goldwatch is installed where there is
a C compiler; numpy does the same.
"""
