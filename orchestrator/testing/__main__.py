"""``python -m goldwatch.testing``: starts :mod:`.program`."""

from ..__main__ import leave, main

if __name__ == "__main__":
    try:
        main("goldwatch.testing.program")
    except KeyboardInterrupt:
        leave()
