"""Names of a program's arguments and results: their paths in the pytrees of a function."""

from __future__ import annotations

import json
from collections.abc import Sequence

from axla.core.dataclass import dataclass
from axla.ir.graph import Module

NAMES = "axla.names"
"""The frontend attribute of a module with the names of its arguments and results, as JSON."""


@dataclass(frozen=True, slots=True)
class Names:
    """The paths of a program's leaves in the pytrees of the function's arguments and results, such as
    `params['dense1']['kernel']` and `result['logits']`.
    """

    arguments: tuple[str, ...]
    results: tuple[str, ...]

    @property
    def text(self) -> str:
        """The names as the text of the frontend attribute NAMES: JSON."""
        return json.dumps({"arguments": self.arguments, "results": self.results})


def names_in(module: Module) -> Names | None:
    """The names that a module stores; None if it has none, or malformed ones."""
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
    """The paths of results in JAX's `jax.result_info`: `result['y']`, or `['y']` in older versions. () unless
    every result has one.
    """
    found = [i if i.startswith("result") else f"result{i}" for i in infos if isinstance(i, str)]
    return tuple(found) if len(found) == len(infos) else ()
