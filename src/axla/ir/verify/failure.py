"""Reports the failure of a check."""

from __future__ import annotations

from typing import NoReturn

from axla.core.errors import VerifyError


def fail(rule: str, message: str) -> NoReturn:
    """Raises VerifyError; `rule` is the stable name of the broken rule, which ends the message."""
    raise VerifyError(f"{message}  [{rule}]")
