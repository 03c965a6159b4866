"""The declarations of all ops of HLO. Importing this package fills the table `axla.ir.op.OPS`.

Read `elementwise.py` first, with `family.py` (base classes and helpers of related ops) and `numeric.py`
(arithmetic as HLO defines it).
"""

# ruff: noqa: F403, F405

from axla.hlo.asynchronous import *
from axla.hlo.collective import *
from axla.hlo.contraction import *
from axla.hlo.control import *
from axla.hlo.conversion import *
from axla.hlo.dynamic_size import *
from axla.hlo.elementwise import *
from axla.hlo.grouped_dot import *
from axla.hlo.indexing import *
from axla.hlo.linear_algebra import *
from axla.hlo.movement import *
from axla.hlo.random import *
from axla.hlo.random_bits import *
from axla.hlo.reduction import *
from axla.hlo.slicing import *
from axla.hlo.sorting import *
from axla.hlo.transcendental import *
from axla.hlo.transfer import *
from axla.hlo.window import *
from axla.ir.op import OPS as OPS
from axla.ir.structure import *

__all__ = ["OPS", "call_site", *(op.__name__ for op in OPS.values())]
