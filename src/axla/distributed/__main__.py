"""The command `python -m axla.distributed`, which starts a script in several processes."""

import sys

from axla.distributed.launch import main

sys.exit(main())
