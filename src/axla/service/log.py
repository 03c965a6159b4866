"""The log of a server: one line for each request, and for each client that connects, disconnects or is
refused.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from axla.service.messages import code_of

FILE = 2
"""The file descriptor of the log. A worker prints to another one, since that may be text of its client."""
_PROGRAM, _MESSAGE = 60, 250
"""The limits of characters for texts chosen by clients. Even with all characters escaped, a line then has
less than 4,096 bytes, which the system writes atomically.
"""


class RequestLog:
    """Writes a line to the log for each request of a session. `form` is "text", "json" or "none"."""

    def __init__(self, session: str, form: str) -> None:
        self.session, self.form = session, form

    def request(self, kind: str, subject: str, seconds: float, error: BaseException | None) -> None:
        """Writes the line of a finished request, with its time and error. `subject` is the name of its
        program, or "". Long names and messages are cut.
        """
        facts: dict[str, Any] = {"request": kind, "ms": round(seconds * 1e3, 3)}
        if subject:
            facts["program"] = subject[:_PROGRAM]
        if error is not None:
            facts |= {"status": code_of(error).name, "error": type(error).__name__}
            facts["message"] = str(error)[:_MESSAGE]
        write_line(self.form, self.session, facts)


def write_line(form: str, session: str, facts: dict[str, Any]) -> None:
    """Writes one line with these facts to the log, atomically. Texts chosen by clients are quoted as in
    JSON.
    """
    if form == "none":
        return
    if form == "json":
        line = json.dumps({"time": time.time(), "session": session, **facts})
    else:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        words = (f"{k}={v if isinstance(v, int | float) else json.dumps(str(v))}" for k, v in facts.items())
        line = f"{now} {session} {' '.join(words)}"
    try:
        os.write(FILE, line.encode() + b"\n")
    except OSError:  # a full disk or a closed pipe must not stop requests
        return
