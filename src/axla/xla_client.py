"""The names of the Python module `xla_client`; see `axla.compatibility.xla_client`."""

from axla.builder import ops as ops
from axla.compatibility.xla_client import *  # noqa: F403
from axla.compatibility.xla_client import __all__ as __all__
