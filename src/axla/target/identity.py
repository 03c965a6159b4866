"""Names of targets for texts and cache keys."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from axla.target.machine import Target


@lru_cache
def identity(target: Target) -> str:
    """The name of a target and a digest of all its facts: equal for equal targets, in every process."""
    return f"{target.name}/{blake2b(_text(target).encode(), digest_size=8).hexdigest()}"


def _text(value: Any) -> str:
    if is_dataclass(value):
        return f"{type(value).__name__}({','.join(_text(getattr(value, f.name)) for f in fields(value))})"
    return repr(sorted(value) if isinstance(value, frozenset) else value)
