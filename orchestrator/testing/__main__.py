"""``python -m goldwatch.testing``: starts :mod:`.program`."""

from ..__main__ import main

if __name__ == "__main__":
    main("goldwatch.testing.program")
