"""The runs of several hosts merged, while they go on, into one store and one verdict."""
