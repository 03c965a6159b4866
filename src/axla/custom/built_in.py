"""Custom call targets that axla brings: what compiled programs call in place of ops that reach the host, and
one of JAX's that no library has. Each takes its call site besides the operands.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

from axla.custom import mail
from axla.custom.feeds import current, feeds, give, leaves_of, take
from axla.custom.probes import probe
from axla.custom.site import CallSite, nest
from axla.custom.tridiagonal import TARGET, solve_perturbed

_log = logging.getLogger("axla.trace")


def _infeed(token: None, *, site: CallSite) -> tuple[Any, None]:
    shape = site.result.elements[0]
    return take(feeds(current.replica).infeed, shape, current.check), None


def _outfeed(data: Any, token: None, *, site: CallSite) -> None:
    give(feeds(current.replica).outfeed, data)


# The configuration of a transfer is its channel.


def _to_host(data: Any, token: None, *, site: CallSite) -> None:
    give(feeds(current.replica).to_host(_channel(site)), data)


def _from_host(token: None, *, site: CallSite) -> tuple[Any, None]:
    shape = site.result.elements[0]
    return take(feeds(current.replica).from_host(_channel(site)), shape, current.check), None


def _channel(site: CallSite) -> int | None:
    return int(site.config) if site.config else None


def _send(data: Any, token: None, *, site: CallSite) -> None:
    mail.post(current.run, site.config, data)


def _recv(token: None, *, site: CallSite) -> tuple[Any, None]:
    shape = site.result.elements[0]
    value = mail.collect(current.run, site.config, str(site))
    return nest(shape, iter(leaves_of(str(site), shape, value))), None


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
    "axla.from_host": _from_host,
    "axla.infeed": _infeed,
    "axla.outfeed": _outfeed,
    "axla.recv": _recv,
    "axla.send": _send,
    "axla.to_host": _to_host,
    "axla.trace": _trace,
    "interpreter.probe": _probe,
    TARGET: solve_perturbed,
}
