"""axla as the CPU backend of JAX: `JAX_PLATFORMS=axla python program.py`, or `axla.jax.install()`.

JAX decides by the name of a platform which features it supports: donation, callbacks, DLPack, LAPACK, the
persistent cache. So axla replaces the client named `cpu`.
"""

from __future__ import annotations

import sys
from typing import Any

import jax
from jax._src import distributed, xla_bridge
from jaxlib import xla_client
from jaxlib.mlir.dialects import stablehlo

from axla.core import flags
from axla.core.errors import InvalidArgument, UnsupportedError

PLATFORM = "axla"
_installed: list[bool] = []


def initialize() -> None:
    """Installs axla if `jax_platforms` names it. JAX calls this function when it looks for plugins."""
    asked = _option("jax_platforms") or ""
    if PLATFORM in asked.split(","):
        install()


def install() -> None:
    """Makes axla the platform `cpu` of JAX. Raises InvalidArgument if JAX has created its devices already. A
    second call does nothing.
    """
    if _installed:
        return
    if xla_bridge.backends_are_initialized():
        raise InvalidArgument("axla.jax.install: JAX has its devices already; call it before the first use")
    from axla.jax import handlers
    from axla.jax.versions import check_version
    from axla.pjrt.partitions import inspectors
    from axla.pjrt.plugin import capsule

    check_version()
    handlers.follow()
    table = capsule(_attributes())
    xla_bridge._nonexperimental_plugins.add("cpu")  # otherwise JAX warns that the plugin is experimental
    xla_bridge.register_plugin("cpu", c_api=table, priority=0, options=_options)
    asked = (_option("jax_platforms") or PLATFORM).split(",")
    names = dict.fromkeys("cpu" if name == PLATFORM else name for name in asked)
    jax.config.update("jax_platforms", ",".join(names))
    # The address of the callback; the address of its data follows.
    call = xla_client.encode_inspect_sharding_callback(_options)[:8]
    inspectors.add(int.from_bytes(call, "little"))
    _let_dlpack_copy()
    _installed.append(True)


def _options() -> dict[str, Any]:
    """The options with which JAX creates the client."""
    if distributed.global_state.client is not None:
        raise UnsupportedError("jax.distributed: axla supports the devices of one process only")
    count = _option("jax_num_cpu_devices")
    return {"devices": count if count > 0 else flags.current().host_device_count}


def _let_dlpack_copy() -> None:
    """Lets `from_dlpack` copy arrays: jaxlib passes this wish to its own client only, not through the C
    API.
    """
    from axla.pjrt.buffers import copying

    _jax: Any = sys.modules["jaxlib._jax"]
    convert = _jax.dlpack_managed_tensor_to_buffer

    def convert_or_copy(tensor: Any, device: Any, stream: Any, copy: Any = None, *more: Any) -> Any:
        if copy is False:
            return convert(tensor, device, stream, False, *more)
        with copying(always=bool(copy)):
            return convert(tensor, device, stream, False, *more)

    _jax.dlpack_managed_tensor_to_buffer = convert_or_copy


def _option(name: str) -> Any:
    return getattr(jax.config, name)


def _attributes() -> dict[str, object]:
    """Attributes of the plugin: the versions of StableHLO that axla reads are those that jaxlib writes."""
    current, oldest = stablehlo.get_current_version(), stablehlo.get_minimum_version()
    return {
        "stablehlo_current_version": [int(part) for part in current.split(".")],
        "stablehlo_minimum_version": [int(part) for part in oldest.split(".")],
    }
