"""Custom call targets that axla brings: what compiled programs call in place of ops that reach the host. Each
takes its call site besides the operands.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

from axla.custom.feeds import current, give_outfeed, take_infeed
from axla.custom.probes import probe
from axla.custom.site import CallSite

_log = logging.getLogger("axla.trace")


def _infeed(token: None, *, site: CallSite) -> tuple[Any, None]:
    shape = site.result.elements[0]  # type: ignore[attr-defined]
    return take_infeed(shape, current.check, current.replica), None


def _outfeed(data: Any, token: None, *, site: CallSite) -> None:
    give_outfeed(data, current.replica)


def _trace(value: Any, *, site: CallSite) -> None:
    """Logs the value under the tag that is the call's configuration; writes to stderr where nobody logs."""
    if _log.hasHandlers():
        _log.info("%s: %s", site.config, value)
    else:
        print(f"{site.config}: {value}", file=sys.stderr, flush=True)


def _probe(value: Any, *, site: CallSite) -> Any:
    """The value itself, after whoever records probes has seen it."""
    probe(site.config, value, site.result)
    return value


BUILT_IN: dict[str, Callable[..., Any]] = {
    "axla.infeed": _infeed,
    "axla.outfeed": _outfeed,
    "axla.trace": _trace,
    "interpreter.probe": _probe,
}
