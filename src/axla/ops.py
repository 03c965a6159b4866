"""Builder functions with XLA's names: `ops.Add(lhs, rhs, broadcast_dimensions)`. See `axla.builder`.

(The declarations of the ops themselves are in `axla.hlo`.)
"""

# Functions whose ops come later are there too, by __getattr__: they raise UnsupportedError.
from axla.builder.ops import *  # noqa: F403
from axla.builder.ops import __all__ as __all__
from axla.builder.ops import __dir__ as __dir__
from axla.builder.ops import __getattr__ as __getattr__
