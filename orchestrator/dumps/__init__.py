"""What a device wrote: one container file, a tree of them, whether a file is whole."""
