"""Runs the command `axla` for `python -m axla`."""

import sys

from axla.tools.main import main

if __name__ == "__main__":
    sys.exit(main())
