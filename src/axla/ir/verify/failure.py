"""The function by which all checks report errors."""

from __future__ import annotations

from typing import NoReturn

from axla.core.errors import VerifyError


def fail(rule: str, message: str) -> NoReturn:
    """Raises VerifyError. The message ends with `rule`, the fixed label of the broken rule."""
    raise VerifyError(f"{message}  [{rule}]")
