"""The pass that replaces calls of LAPACK by HLO programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from axla.builder import ops
from axla.builder.xla_builder import XlaBuilder, XlaOp
from axla.core.shape import AnyShape, Shape
from axla.core.shape_util import inverse, major_to_minor
from axla.custom.lapack import is_installed
from axla.custom.registry import registered
from axla.custom.routines import TARGETS, RoutineCall, request_of
from axla.custom.site import CallSite
from axla.hlo import Call, CustomCall
from axla.hlo.control import call_site
from axla.ir.graph import Instruction, Module
from axla.ir.typed import op_of
from axla.passes.expand.expander import embedded, expand
from axla.passes.layout.normalize import physical_dims
from axla.passes.linalg import small
from axla.passes.linalg.routines import ROUTINES


def lapack_expander(module: Module, missing_only: bool = False) -> None:
    """Replaces calls of LAPACK by programs of loops and products. With `missing_only` it replaces only calls
    for which there is no library, and calls for batches of many small matrices.
    """
    made: dict[CallSite, Module] = {}

    def expanded(inst: Instruction) -> Instruction | None:
        op = op_of(inst, CustomCall)
        if op.custom_call_target not in TARGETS or registered(op.custom_call_target):
            return None
        site = replace(call_site(inst), aliases=())
        if missing_only and is_installed() and not _many_small(site):
            return None
        in_memory = op.result_layout_constraints is not None
        key = replace(site, where=str(in_memory))
        if key not in made:
            made[key] = _program(site, [o.shape for o in inst.operands], inst.shape, in_memory)
        # The call may be the root of the program, so it keeps the shape with its layout.
        return inst.computation.add(Call(embedded(made[key], inst)), inst.operands, inst.shape)

    expand(module, "lapack-expander", {CustomCall: expanded})


def _many_small(site: CallSite) -> bool:
    shape, routine = _arrays(site.operands)[0], TARGETS[site.target][1]
    many = prod(shape.dims[:-2]) >= small.MANY and 0 < max(shape.dims[-2:]) <= small.MOST
    return routine in small.ROUTINES and many and not shape.dtype.is_complex


def _program(site: CallSite, operands: Sequence[AnyShape], result: AnyShape, in_memory: bool) -> Module:
    """The program that replaces a call. `in_memory`: layout normalization has already given the arrays the
    shapes of their bytes.
    """
    request = request_of(site)
    builder = XlaBuilder(site.target)
    given = [builder.parameter(k, shape.logical) for k, shape in enumerate(operands)]
    seen = [_seen(x, s, request, in_memory) for x, s in zip(given, _arrays(site.operands), strict=True)]
    wanted = _arrays(site.result_leaves)
    if all(shape.size for shape in _arrays(site.operands)[:1]):
        found = ROUTINES[request.routine](request.attributes, *seen)
    else:
        found = [None] * len(wanted)
    results = [
        ops.Broadcast(ops.Zero(builder, s.dtype), physical_dims(s) if in_memory else s.dims)
        if x is None else _lying(x, s, request, in_memory)
        for x, s in zip(found, wanted, strict=True)
    ]  # fmt: skip
    return builder.build(ops.Tuple(builder, results) if result.is_tuple else results[0]).module


def _arrays(shapes: Sequence[AnyShape]) -> list[Shape]:
    return [s for s in shapes if isinstance(s, Shape)]


def _is_matrix(shape: Shape, request: RoutineCall) -> bool:
    return shape.rank == len(request.batch) + 2


def _seen(x: XlaOp, shape: Shape, request: RoutineCall, in_memory: bool) -> XlaOp:
    """An operand as the library reads it: a batch of matrices, which are column-major whatever the layout is.
    `shape` is the operand's declared shape; `in_memory` is explained at `_program`.
    """
    lying = x if in_memory else ops.Transpose(x, major_to_minor(shape))
    batch = prod(request.batch)
    if not _is_matrix(shape, request):
        return ops.Reshape(lying, (batch, 1, shape.dims[-1]))
    rows, columns = shape.dims[-2:]
    return ops.Transpose(ops.Reshape(lying, (batch, columns, rows)), (0, 2, 1))


def _lying(x: XlaOp, shape: Shape, request: RoutineCall, in_memory: bool) -> XlaOp:
    """A result in the layout that the call declares in `shape`; the inverse of `_seen`."""
    if _is_matrix(shape, request):
        x = ops.Transpose(x, (0, 2, 1))
    x = ops.Reshape(x, physical_dims(shape))
    return x if in_memory else ops.Transpose(x, inverse(major_to_minor(shape)))
