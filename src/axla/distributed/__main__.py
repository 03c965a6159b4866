"""Starts a worker of a job: `python -m axla.distributed`."""

import sys

from axla.distributed.launch import main

sys.exit(main())
