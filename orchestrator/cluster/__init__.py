"""Comparing on other machines: the work of a run handed to the workers of a Dask cluster, with the
same engine (extra ``dask``).
"""
