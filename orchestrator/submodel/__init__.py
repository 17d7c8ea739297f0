"""A part of the original model with all it needs: which nodes belong to it, what crosses its
border, the cut files.
"""
