"""Converts nested arguments of a call to a list of leaves, and a list of leaves to nested results. No
function is recursive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from axla.core.errors import InvalidArgument
from axla.program.interface import Interface, Tree, is_flat, tree_leaves


def is_flat_call(interface: Interface) -> bool:
    """Whether no argument is a tuple, and the result is a single leaf or a tuple of leaves."""
    trees = interface.parameter_trees
    flat = trees is None or all(not isinstance(tree, tuple) for tree in trees)
    return flat and is_flat(interface.result_tree)


def flatten(interface: Interface, arguments: tuple[Any, ...]) -> list[Any]:
    """The leaves of nested arguments, in order. InvalidArgument if the arguments are not nested like the
    parameters.
    """
    trees = interface.parameter_trees
    if trees is None:
        return list(arguments)
    if len(arguments) != len(trees):
        raise InvalidArgument(f"{interface.name}: found {len(arguments)} arguments, wanted {len(trees)}")
    leaves: list[Any] = [None] * sum(len(tree_leaves(tree)) for tree in trees)
    stack: list[tuple[Tree, Any, str]] = [
        (tree, argument, f"argument {i}")
        for i, (tree, argument) in enumerate(zip(trees, arguments, strict=True))
    ]
    while stack:
        tree, value, where = stack.pop()
        if not isinstance(tree, tuple):
            leaves[tree] = value
            continue
        if not isinstance(value, tuple | list) or len(value) != len(tree):
            found = f"{len(value)} values" if isinstance(value, tuple | list) else type(value).__name__
            wanted = f"wanted a tuple of {len(tree)}"
            raise InvalidArgument(f"{interface.name}, {where}: {wanted}, found {found}")
        stack.extend((t, v, f"{where}[{i}]") for i, (t, v) in enumerate(zip(tree, value, strict=True)))
    return leaves


def nest(tree: Tree, leaves: Sequence[Any]) -> Any:
    """Arranges leaves as nested tuples. `tree` has the index of a leaf at each position."""
    if not isinstance(tree, tuple):
        return leaves[tree]
    root: list[Any] = []
    stack: list[tuple[tuple[Tree, ...], list[Any]]] = [(tree, root)]
    order: list[tuple[list[Any], int, list[Any]]] = []
    while stack:
        node, out = stack.pop()
        for child in node:
            if isinstance(child, tuple):
                inner: list[Any] = []
                order.append((out, len(out), inner))
                out.append(None)
                stack.append((child, inner))
            else:
                out.append(leaves[child])
    for out, place, inner in reversed(order):  # inner tuples first: `order` has parents before children
        out[place] = tuple(inner)
    return tuple(root)
