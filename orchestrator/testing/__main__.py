"""``python -m goldwatch.testing``: starts :mod:`.commands`."""

from ..__main__ import leave, main

if __name__ == "__main__":
    try:
        main("goldwatch.testing.commands")
    except KeyboardInterrupt:
        leave()
