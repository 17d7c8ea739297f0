"""``python -m goldwatch.adapters.acl``: starts :mod:`.runner`."""

from .runner import main

if __name__ == "__main__":
    main()
