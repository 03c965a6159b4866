"""The custom call targets that axla provides: functions for ops that communicate with the host or other
participants, and a solver that JAX calls and that no library has.

Each function gets the operands of the call, and its call site.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from axla.core.errors import RuntimeFailure
from axla.core.shape import AnyShape, Shape
from axla.core.tables import by_name
from axla.custom.feeds import current, feeds, give, leaves_of, take
from axla.custom.probes import probe
from axla.custom.site import CallSite, nest
from axla.custom.tridiagonal import TARGET, solve_perturbed

_log = logging.getLogger("axla.trace")


def _infeed(token: None, *, site: CallSite) -> tuple[Any, None]:
    shape = site.result.elements[0]
    return take(feeds(current.device).infeed, shape, current.check), None


def _outfeed(data: Any, token: None, *, site: CallSite) -> None:
    give(feeds(current.device).outfeed, data)


# The configuration of a transfer to or from the host is its channel.


def _to_host(data: Any, token: None, *, site: CallSite) -> None:
    give(feeds(current.device).to_host(_channel(site)), data)


def _from_host(token: None, *, site: CallSite) -> tuple[Any, None]:
    shape = site.result.elements[0]
    return take(feeds(current.device).from_host(_channel(site)), shape, current.check), None


def _channel(site: CallSite) -> int | None:
    return int(site.config) if site.config else None


# The configuration of a transfer between participants is its channel, and after that, if given, its sources
# and targets.


def _send(data: Any, token: None, *, site: CallSite) -> None:
    channel, pairs = _channel_and_pairs(site)
    for target in [None] if pairs is None else [b for a, b in pairs if a == current.participant]:
        current.send((channel, target), data)


def _recv(token: None, *, site: CallSite) -> tuple[Any, None]:
    shape, (channel, pairs) = site.result.elements[0], _channel_and_pairs(site)
    if pairs is not None and all(target != current.participant for _, target in pairs):
        return nest(shape, (zeros(leaf) for leaf in shape.leaves())), None
    address = channel, None if pairs is None else current.participant
    value = current.receive(address, f"in {site} for data on channel {channel}, which nobody sent")
    return nest(shape, iter(leaves_of(str(site), shape, value))), None


def zeros(leaf: AnyShape) -> Any:
    """An array of zeros with the shape of a leaf; None for a token."""
    return np.zeros(leaf.dims, leaf.dtype.numpy) if isinstance(leaf, Shape) else None


def _channel_and_pairs(site: CallSite) -> tuple[str, list[tuple[int, int]] | None]:
    channel, _, text = site.config.partition(";")
    pairs = [pair.split(">") for pair in text.split(",") if pair]
    return channel, [(int(a), int(b)) for a, b in pairs] or None


def _trace(value: Any, *, site: CallSite) -> None:
    """Logs the value, tagged with the call's configuration; prints it to stderr if logging is not
    configured.
    """
    if _log.hasHandlers():
        _log.info("%s: %s", site.config, value)
    else:
        print(f"{site.config}: {value}", file=sys.stderr, flush=True)


def _probe(value: Any, *, site: CallSite) -> Any:
    """Passes the value to the recorder of probes, if there is one, and returns it."""
    probe(site.config, value, site.result)
    return value


def _check(truth: Any, *, site: CallSite) -> None:
    """Stops the program with an error if `truth` is false. Compiled programs do this without Python."""
    if not truth:
        raise RuntimeFailure(site.config)


BUILT_IN: dict[str, Callable[..., Any]] = {
    **by_name("axla.", _check, _from_host, _infeed, _outfeed, _recv, _send, _to_host, _trace),
    "interpreter.probe": _probe,
    TARGET: solve_perturbed,
}
