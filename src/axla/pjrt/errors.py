"""Errors of the C API: a status code and a text."""

from __future__ import annotations

import traceback

from axla.core import status
from axla.core.errors import AxlaError, CustomCallFailure
from axla.core.parsing import undisturbed
from axla.core.status import Status


class StatusError(Exception):
    """An error with the status code and the text that the client receives."""

    def __init__(self, code: Status, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


def status_of(error: BaseException) -> tuple[int, str]:
    """The code and the text of an error. For an exception in a callback, the text includes the traceback."""
    if isinstance(error, StatusError):
        return error.code, error.text
    if isinstance(error, CustomCallFailure) and error.__cause__ is not None:
        if isinstance(error.__cause__, StatusError):
            return status_of(error.__cause__)
        lines = "".join(undisturbed(traceback.format_exception, error.__cause__))
        return Status.INTERNAL, f"CpuCallback error calling callback: {lines}"
    if isinstance(error, AxlaError):
        return status.status_of(error), str(error)
    if isinstance(error, NotImplementedError):
        return Status.UNIMPLEMENTED, f"{error} is not implemented"
    return status.status_of(error), "".join(undisturbed(traceback.format_exception, error))
