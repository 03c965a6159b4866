"""Names of a program's arguments and results: their paths in the pytrees of a function."""

from __future__ import annotations

import json
from collections.abc import Sequence

from axla.core.dataclass import dataclass
from axla.ir.graph import Module

NAMES = "axla.names"
"""The frontend attribute of a module with the names of its arguments and results: JSON."""


@dataclass(frozen=True, slots=True)
class Names:
    """The paths of a program's leaves in the function's pytrees: `params['dense1']['kernel']`,
    `result['logits']`.
    """

    arguments: tuple[str, ...]
    results: tuple[str, ...]

    @property
    def text(self) -> str:
        """The text of the frontend attribute."""
        return json.dumps({"arguments": self.arguments, "results": self.results})


def names_in(module: Module) -> Names | None:
    """The names stored in a module; None where there are none, or they are malformed."""
    text = dict(module.config.frontend_attributes).get(NAMES)
    try:
        found = json.loads(text or "")
        lists = (found["arguments"], found["results"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if any(not isinstance(names, list) or not all(isinstance(n, str) for n in names) for names in lists):
        return None
    return Names(tuple(lists[0]), tuple(lists[1]))


def result_names(infos: Sequence[object]) -> tuple[str, ...]:
    """Paths of results from JAX's `jax.result_info`: `result['y']`, or `['y']` in older versions; None unless
    every result has one.
    """
    found = [i if i.startswith("result") else f"result{i}" for i in infos if isinstance(i, str)]
    return tuple(found) if len(found) == len(infos) else ()
