"""Custom call targets that axla brings: what compiled programs call in place of ops that reach the host, and
one of JAX's that no library has. Each takes its call site besides the operands.
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


# The configuration of a transfer is its channel.


def _to_host(data: Any, token: None, *, site: CallSite) -> None:
    give(feeds(current.device).to_host(_channel(site)), data)


def _from_host(token: None, *, site: CallSite) -> tuple[Any, None]:
    shape = site.result.elements[0]
    return take(feeds(current.device).from_host(_channel(site)), shape, current.check), None


def _channel(site: CallSite) -> int | None:
    return int(site.config) if site.config else None


# Of one between participants: its channel, and behind it, where they are given, sources and targets.


def _send(data: Any, token: None, *, site: CallSite) -> None:
    channel, pairs = _channel_and_pairs(site)
    for target in [None] if pairs is None else [b for a, b in pairs if a == current.participant]:
        current.send((channel, target), data)


def _recv(token: None, *, site: CallSite) -> tuple[Any, None]:
    shape, (channel, pairs) = site.result.elements[0], _channel_and_pairs(site)
    if pairs is not None and all(target != current.participant for _, target in pairs):
        return nest(shape, (zeros(leaf) for leaf in shape.leaves())), None
    address = channel, None if pairs is None else current.participant
    value = current.receive(address, f"in {site} for what nobody sent on channel {channel}")
    return nest(shape, iter(leaves_of(str(site), shape, value))), None


def zeros(leaf: AnyShape) -> Any:
    """Zeros in the shape of a leaf; None for a token."""
    return np.zeros(leaf.dims, leaf.dtype.numpy) if isinstance(leaf, Shape) else None


def _channel_and_pairs(site: CallSite) -> tuple[str, list[tuple[int, int]] | None]:
    channel, _, text = site.config.partition(";")
    pairs = [pair.split(">") for pair in text.split(",") if pair]
    return channel, [(int(a), int(b)) for a, b in pairs] or None


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


def _check(truth: Any, *, site: CallSite) -> None:
    """Ends the program with an error where a truth is false; compiled programs do it without Python."""
    if not truth:
        raise RuntimeFailure(site.config)


BUILT_IN: dict[str, Callable[..., Any]] = {
    **by_name("axla.", _check, _from_host, _infeed, _outfeed, _recv, _send, _to_host, _trace),
    "interpreter.probe": _probe,
    TARGET: solve_perturbed,
}
