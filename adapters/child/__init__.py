"""One protocol for every framework's child process: :mod:`.parent` starts it, listens and ends it;
:mod:`.serve` is its other side.
"""
