"""Every op of HLO, one declaration each. Importing this package fills `axla.ir.op.OPS`.

Read `elementwise.py` first, with `family.py` (what families of ops share) and `numeric.py` (arithmetic as HLO defines it).
"""

from axla.ir.op import OPS
from axla.ir.structure import Constant, GetTupleElement, Parameter, Tuple
from axla.ops.elementwise import *  # noqa: F403

__all__ = sorted(cls.__name__ for cls in OPS.values())
