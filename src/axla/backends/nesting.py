"""Converts nested arguments and results of a call to leaves, and back; without recursion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from axla.core.errors import InvalidArgument
from axla.program.interface import Interface, Tree, is_flat, tree_leaves


def is_flat_call(interface: Interface) -> bool:
    """Whether arguments are the parameter leaves, and the result is a leaf or a tuple of them."""
    trees = interface.parameter_trees
    flat = trees is None or all(not isinstance(tree, tuple) for tree in trees)
    return flat and is_flat(interface.result_tree)


def flatten(interface: Interface, arguments: tuple[Any, ...]) -> list[Any]:
    """The leaves of nested arguments in order; InvalidArgument where the nesting differs from the
    parameters'.
    """
    trees = interface.parameter_trees
    if trees is None:
        return list(arguments)
    if len(arguments) != len(trees):
        raise InvalidArgument(f"{interface.name}: {len(arguments)} arguments, wanted {len(trees)}")
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
    """The leaves as nested tuples."""
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
    for out, place, inner in reversed(order):  # parents come before their children in `order`
        out[place] = tuple(inner)
    return tuple(root)
