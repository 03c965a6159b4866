import sys

from axla.distributed.launch import main

sys.exit(main())
