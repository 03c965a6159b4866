"""Everything in JAX outside its public functions that axla uses. Any release of JAX may change it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax._src.array import ArrayImpl
from jax._src.config import disable_jit, trace_context
from jax._src.core import trace_state_clean
from jax.core import ShapedArray
from jaxlib import xla_client
from jaxlib._jax import (
    PjitFunction,
    batched_device_put,
    register_custom_call_target,
    register_custom_type,
)

__all__ = ["ArrayImpl", "PjitFunction", "trace_context"]


def is_plain() -> bool:
    """Whether `jit` is enabled and no transformation of JAX is active, in which values would be tracers."""
    return trace_state_clean() and not disable_jit.value


def callbacks_of(lowered: Any) -> tuple[Callable[..., Any], ...]:
    """The host callbacks of a lowered program, which calls them by their index in this tuple."""
    return tuple(lowered._lowering.compile_args["host_callbacks"])


def follow(
    register_handler: Callable[[str, Any, int, Any], None], register_type: Callable[[str, Any], None]
) -> None:
    """Calls `register_handler` and `register_type` for all handlers and types that are registered with
    `jax.ffi` for CPUs, now and later. XLA's own client, if there is one, gets the handlers and types too.
    """

    def handler(name: str, fn: Any, platform: str, api_version: int = 0, traits: Any = 0) -> None:
        register_custom_call_target(name, fn, platform, api_version, traits)
        register_handler(name, fn, api_version, traits)

    def type_(type_name: str, type_id: Any) -> None:
        register_custom_type(type_name, type_id)
        register_type(type_name, type_id)

    xla_client.register_custom_call_handler("cpu", handler)
    xla_client.register_custom_type_handler("cpu", type_)


def handlers() -> dict[str, tuple[Any, int]]:
    """The handlers that are registered with `jax.ffi` for CPUs: by name, the handler and its API version (0:
    untyped, 1: typed). Some are in XLA's registry (without the stage `instantiate`), others wait for XLA's
    client.
    """
    found = xla_client.custom_call_targets("Host").items()
    waiting = xla_client._custom_callback.get("Host", ())
    known = {name: (handler, int(isinstance(handler, dict))) for name, handler in found}
    return known | {name: (handler, version) for name, handler, version, _ in waiting}


def static_of(jitted: Any) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The positions and names of the static arguments of a function that `jax.jit` returned."""
    return jitted._jit_info.static_argnums, jitted._jit_info.static_argnames


def result_maker(aval: Any) -> Callable[[Any], Any]:
    """Returns a function that makes a `jax.Array` of the type `aval` on the first CPU device, in the memory
    of an array on the host.
    """
    dtype = aval.dtype
    if dtype == jax.dtypes.float0:
        return lambda array: np.zeros(aval.shape, dtype)
    if jax.numpy.issubdtype(dtype, jax.dtypes.prng_key):
        data = result_maker(ShapedArray((*aval.shape, *dtype._impl.key_shape), np.dtype("uint32")))
        return lambda array: jax.random.wrap_key_data(data(array), impl=dtype._impl)
    wanted = ShapedArray(aval.shape, dtype, weak_type=aval.weak_type)
    devices = jax.devices("cpu")[:1]
    sharding = jax.sharding.SingleDeviceSharding(devices[0])
    put, asarray = batched_device_put, np.asarray

    def made(array: Any) -> Any:
        return put(wanted, sharding, [asarray(array)], devices, False)

    return made
