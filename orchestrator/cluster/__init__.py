"""Comparing on other machines: the work of a run handed to the workers of a Dask cluster, which compare with the same engine (extra ``dask``)."""
