"""``python -m goldwatch`` is the command line."""

from goldwatch.cli import main

main()
