"""Prepares a module for any backend: with known sizes (`sized`), then verified and partitioned (`verified`).

A backend that finds the code of an equal module in its cache only needs `sized`.
"""

from __future__ import annotations

from typing import Any

from axla.backends.options import CompileOptions
from axla.core.errors import InvalidArgument
from axla.hlo import CustomCall
from axla.ir.clone import clone_module
from axla.ir.graph import Module
from axla.ir.verify import verify, verify_graph, verify_meaning
from axla.passes.expand.markers import marker_removal


def sized(module: Module, options: CompileOptions) -> Module:
    """Returns the module, or a copy if the options change it: with known sizes, and the numbers of
    participants in the options. InvalidArgument for an object that is not a Module, VerifyError for an
    inconsistent graph.
    """
    if not isinstance(module, Module):
        raise InvalidArgument(
            f"compile: wanted a Module, as axla.parse returns, found {type(module).__name__}"
        )
    module = specialized(module, options.arg_types, options.dim_args)
    if options.num_replicas is not None or options.num_partitions is not None:
        counts = options.participants(module)
        module = clone_module(module)
        module.set_config(replica_count=counts[0], num_partitions=counts[1])
    verify_graph(module)
    return module


def verified(module: Module, options: CompileOptions) -> Module:
    """Verifies the result of `sized` and returns it, or a copy in which whole arrays are partitioned.
    VerifyError for an invalid module.
    """
    verify_meaning(module)
    if has_whole_arrays(module):
        if options.participants(module)[1] > 1:
            from axla.passes.expand.partition import of_one_partition

            module = of_one_partition(module)
        else:
            module = clone_module(module)
            marker_removal(module)
        verify(module)
    return module


def has_whole_arrays(module: Module) -> bool:
    """Whether the module describes whole arrays that must still be partitioned."""
    every = (inst.op for computation in module.computations for inst in computation.instructions)
    if not module.config.frontend_attributes and not any(isinstance(op, CustomCall) for op in every):
        return False
    from axla.passes.expand import manual

    return manual.has_whole_arrays(module)


def specialized(module: Module, arg_types: Any, dim_args: Any) -> Module:
    """Returns the module with known sizes: unknown ones (`?`) are taken from `arg_types` or `dim_args`."""
    if type(module) is Module and arg_types is None and dim_args is None:
        return module
    from axla.stablehlo.modules import DynamicModule

    if isinstance(module, DynamicModule):
        return module.specialize(arg_types, dim_args)
    raise InvalidArgument(f"compile: arg_types or dim_args given, but {module.name} has no unknown sizes `?`")
