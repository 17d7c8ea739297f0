"""``python -m goldwatch.adapters.acl``: starts :mod:`.run`."""

from .run import main

if __name__ == "__main__":
    main()
