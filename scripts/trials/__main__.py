"""``python scripts/trials corpus DIR…``: trials that need files of other people."""

from __future__ import annotations

import argparse
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))

from trials import corpus  # noqa: E402  found by the line above


def main() -> int:
    """Run the trial that is named; return the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/trials", description=__doc__)
    trials = parser.add_subparsers(dest="trial", metavar="TRIAL")
    trials.required = True
    corpus.add_arguments(
        trials.add_parser(
            "corpus",
            description=corpus.__doc__,
            help="folders of scripts, configurations and models",
        )
    )
    return corpus.main(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
