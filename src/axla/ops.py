"""Builder functions with XLA's names: `ops.Add(lhs, rhs, broadcast_dimensions)`. See `axla.builder`.

(The declarations of the ops themselves are in `axla.hlo`.)
"""

from typing import TYPE_CHECKING

from axla.builder.ops import *  # noqa: F403

if not TYPE_CHECKING:  # type checkers take the names from the import above
    from axla.builder.ops import __all__ as __all__
