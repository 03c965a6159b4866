"""The passes that consist of rewrite rules."""

from __future__ import annotations

from axla.ir.graph import Module
from axla.passes.rewrite import RULES, rewrite

# Importing these modules adds their rules to RULES.
from axla.passes.simplify import (  # noqa: F401
    algebra_arithmetic,
    algebra_calls,
    algebra_dot,
    algebra_floors,
    algebra_indexing,
    algebra_logic,
    algebra_movement,
    algebra_ranges,
    algebra_reduce,
    algebra_slices,
    algebra_updates,
    algebra_windows,
)  # fmt: skip


def algsimp(module: Module, *, is_layout_sensitive: bool = False) -> None:
    """Replaces instructions by cheaper ones with the same value (`axla opt --list-rules`)."""
    rewrite(module, RULES["algsimp"], is_layout_sensitive=is_layout_sensitive)


def tuple_simplifier(module: Module) -> None:
    """Removes tuples of which only elements are used, and tuples that are built from all elements of another
    tuple.
    """
    rewrite(module, RULES["tuple-simplifier"])


def map_inliner(module: Module) -> None:
    """Replaces maps of elementwise computations by elementwise instructions."""
    rewrite(module, RULES["map-inliner"])


def expand_barriers(module: Module) -> None:
    """Removes optimization barriers. Passes that simplify across them must not run afterwards."""
    rewrite(module, RULES["optimization-barrier-expander"])
