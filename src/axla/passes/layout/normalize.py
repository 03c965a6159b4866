"""Layout normalization: afterwards every value inside a module has the default layout.

A layout defines the order of elements in memory, not the meaning of a value. The entry keeps its layouts in
`config.entry_layout`. A parameter or result with another layout becomes an array with permuted dimensions in
the default layout, and a transpose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from axla.core.errors import UnsupportedError
from axla.core.shape import AnyShape, Layout, ProgramShape, Shape, TupleShape
from axla.core.shape_util import inverse, major_to_minor
from axla.hlo import Bitcast, BitcastConvert, Constant, Copy, CustomCall, Reshape, Transpose, Tuple, call_site
from axla.ir.graph import NO_EXTRA, Computation, Extra, Instruction, Module
from axla.ir.traverse import post_order
from axla.ir.typed import op_of, shape_of
from axla.passes.schedule.copies import assemble, explode


def layout_normalization(module: Module) -> None:
    """Gives every value the default layout. Parameters and results of the entry with another layout are
    transposed.
    """
    entry = module.entry
    if module.schedule is not None or module.config.is_scheduled:
        module.set_schedule(None)  # an imported schedule is not valid for the changed module
        module.set_config(is_scheduled=False)
    if module.config.entry_layout is None:
        module.set_config(entry_layout=entry.program_shape)
    boundary = module.config.entry_layout
    assert boundary is not None
    for parameter, shape in zip(entry.parameters, boundary.parameters, strict=True):
        for leaf in shape.leaves():
            check_layout(leaf, f"parameter {parameter.name}")
    for leaf in boundary.result.leaves():
        check_layout(leaf, "the result")
    for computation in module.computations:
        _normalize(computation)
    _enter(entry, boundary)
    _leave(entry, boundary)


def check_layout(shape: AnyShape, what: str) -> None:
    """Raises UnsupportedError for an array whose layout is more than an order of dimensions: the cpu backend
    has only dense minor-to-major arrays. `what` names the array in the message.
    """
    if isinstance(shape, Shape) and any(t not in ("D", "") for t in shape.layout.dim_types):
        raise UnsupportedError(
            f"{what}: the layout of {shape} is not supported on cpu: a dimension is sparse; "
            f"{shape.with_layout(Layout(shape.layout.minor_to_major))} would work"
        )


def physical_dims(shape: Shape) -> tuple[int, ...]:
    """The sizes of the dimensions in the order of memory, major dimension first."""
    return tuple(shape.dims[d] for d in major_to_minor(shape))


def physical_shape(shape: AnyShape) -> AnyShape:
    """The shape in the default layout with the same order of bytes as `shape`."""
    if isinstance(shape, TupleShape):
        return TupleShape([physical_shape(s) for s in shape.elements])
    if not isinstance(shape, Shape):
        return shape
    order = major_to_minor(shape)
    return Shape(shape.dtype, [shape.dims[d] for d in order], [shape.dynamic[d] for d in order])


def lies_as_written(shape: AnyShape) -> bool:
    """Whether every array of a shape has the default order of dimensions. Comparing the sizes in memory order
    would not do, since those of a square matrix are equal in any order.
    """
    return all(leaf.layout.is_descending for leaf in shape.arrays())


def location(inst: Instruction) -> Extra:
    """The source location of an instruction, for the instructions that replace it."""
    return inst.extra if inst.extra is NO_EXTRA else Extra(location=inst.extra.location)


def to_physical(inst: Instruction, shape: Shape) -> Instruction:
    """The array in the default layout with the bytes that `inst` has in the layout of `shape`."""
    order = major_to_minor(shape)
    if order == tuple(range(shape.rank)):
        return inst
    return inst.computation.add(Transpose(order), [inst], extra=location(inst))


def to_logical(inst: Instruction, shape: Shape) -> Instruction:
    """The inverse of `to_physical`: the array of `shape` whose bytes `inst` has in the default layout."""
    order = major_to_minor(shape)
    if order == tuple(range(shape.rank)):
        return inst
    return inst.computation.add(Transpose(inverse(order)), [inst], extra=location(inst))


def _normalize(computation: Computation) -> None:
    """Removes layouts inside a computation, rewrites bitcasts as ops on values, and removes copies."""
    order = post_order(computation)
    # The layouts on both sides of a bitcast, before copies between layouts are removed.
    bits = {inst: (inst.operands[0].shape, inst.shape) for inst in order if isinstance(inst.op, Bitcast)}
    calls: list[Instruction] = []
    for inst in order:
        op = inst.op
        if isinstance(op, CustomCall) and op.result_layout_constraints is None:
            calls.append(inst)
            continue
        if inst.shape is not inst.shape.logical:
            computation.set_shape(inst, inst.shape.logical)
        if isinstance(op, Constant) and op.literal.shape is not op.literal.shape.logical:
            _normalize_constant(computation, inst)
    for inst in calls:
        _custom_call(inst)
    for inst in order:
        if isinstance(inst.op, Bitcast):
            new = _bitcast(inst, *bits[inst])
        elif isinstance(inst.op, Copy):
            new = inst.operands[0]
        else:
            continue
        computation.replace(inst, new)
        _forget_control(inst, new)
        computation.remove(inst)


def _forget_control(inst: Instruction, new: Instruction) -> None:
    """Makes instructions that waited for a removed instruction wait for its predecessors and for its
    replacement.
    """
    for other in list(inst.computation.instructions):
        before = other.extra.control_predecessors
        if inst in before:
            after = dict.fromkeys(
                (*(p for p in before if p is not inst), new, *inst.extra.control_predecessors)
            )
            after.pop(other, None)
            other.computation.set_extra(other, replace(other.extra, control_predecessors=tuple(after)))


def _normalize_constant(computation: Computation, inst: Instruction) -> None:
    from axla.core.literal import Literal

    op = op_of(inst, Constant)
    literal = op.literal
    if isinstance(literal.shape, Shape):
        plain = Literal(literal.shape.logical, literal.array)
        computation.set_op(inst, Constant(plain.shape, plain))


def _custom_call(inst: Instruction) -> None:
    """Gives a custom call operands and results in the default layout, with the bytes of its declared layouts.
    The op keeps the declared shapes.
    """
    op, computation = op_of(inst, CustomCall), inst.computation
    site = call_site(inst)
    for shape in (*site.operand_leaves, *site.result_leaves):
        check_layout(shape, str(site))
    logical = inst.shape.logical
    if lies_as_written(site.result) and all(map(lies_as_written, site.operands)):
        computation.set_shape(inst, logical)
        return
    made: list[Instruction] = []
    for number, (operand, shape) in enumerate(zip(inst.operands, site.operands, strict=True)):
        if not lies_as_written(shape):
            leaves = _each(to_physical, explode(operand, made), shape)
            computation.set_operand(inst, number, assemble(computation, physical_shape(shape), leaves, made))
    computation.set_op(
        inst,
        replace(op, operand_layout_constraints=site.operands, result_layout_constraints=(site.result,)),
    )
    users, was_root = tuple(inst.users), computation.root is inst
    computation.set_shape(inst, physical_shape(site.result))
    value = assemble(computation, logical, _each(to_logical, explode(inst, made), site.result), made)
    _redirect(inst, users, was_root, value)


def _each(
    move: Callable[[Instruction, Shape], Instruction], leaves: Iterable[Instruction], shape: AnyShape
) -> list[Instruction]:
    """Applies `move` to every array among `leaves`, with the shape of this leaf in `shape`. Other leaves stay
    as they are.
    """
    pairs = zip(leaves, shape.leaves(), strict=True)
    return [move(leaf, s) if isinstance(s, Shape) else leaf for leaf, s in pairs]


def _redirect(old: Instruction, users: Sequence[Instruction], was_root: bool, new: Instruction) -> None:
    """Makes `users` read `new` instead of `old`; makes `new` the root if `was_root`."""
    computation = old.computation
    for user in users:
        for number, operand in enumerate(user.operands):
            if operand is old:
                computation.set_operand(user, number, new)
    if was_root:
        computation.set_root(new)


def _bitcast(inst: Instruction, of: AnyShape, to: AnyShape) -> Instruction:
    """A bitcast as an op on values; `of` and `to` are the shapes of operand and result with their layouts."""
    source = inst.operands[0]
    if not isinstance(of, Shape) or not isinstance(to, Shape):
        if of.logical is to.logical:
            return source
        message = f"{inst!r}: a bitcast of {of} to {to} is not supported on cpu; both must be arrays"
        raise UnsupportedError(message)
    for shape in (of, to):
        check_layout(shape, f"%{inst.name}")
    if of is not to and (of.is_dynamic or to.is_dynamic):
        raise UnsupportedError(f"{inst!r}: bitcast of arrays of dynamic size is not supported")
    if of.dtype.is_complex is not to.dtype.is_complex:
        raise UnsupportedError(f"{inst!r}: a bitcast between complex and other types is not supported on cpu")
    value = to_physical(source, of)
    value = reinterpret(value, Shape(to.dtype, physical_dims(to)))
    return to_logical(value, to)


def reinterpret(value: Instruction, to: Shape) -> Instruction:
    """The bits of a default-layout array, read as an array of the shape `to`."""
    of = shape_of(value)
    if of.dtype is not to.dtype:
        wide, narrow = of.dtype.bits, to.dtype.bits
        if wide >= narrow:
            dims = (*of.dims, wide // narrow) if wide > narrow else of.dims
        else:
            parts = narrow // wide
            value = reshaped(value, (of.size // parts, parts))
            dims = (of.size // parts,)
        value = value.computation.add(BitcastConvert(Shape(to.dtype, dims)), [value], extra=location(value))
    return reshaped(value, to.dims)


def reshaped(value: Instruction, dims: Sequence[int]) -> Instruction:
    """`value` reshaped to `dims`; `value` itself if it already has these dimensions."""
    shape = shape_of(value)
    if shape.dims == tuple(dims):
        return value
    return value.computation.add(Reshape(Shape(shape.dtype, dims)), [value], extra=location(value))


def _enter(entry: Computation, boundary: ProgramShape) -> None:
    """Gives each parameter the default-layout shape with the order of bytes that `boundary` declares, and
    transposes its value for its users.
    """
    for parameter, shape in zip(entry.parameters, boundary.parameters, strict=True):
        if lies_as_written(shape):
            continue
        users = tuple(parameter.users)
        was_root = entry.root is parameter
        logical = parameter.shape
        entry.set_shape(parameter, physical_shape(shape))
        made: list[Instruction] = []
        leaves = _each(to_logical, explode(parameter, made), shape)
        _redirect(parameter, users, was_root, assemble(entry, logical, leaves, made))


def _leave(entry: Computation, boundary: ProgramShape) -> None:
    """Transposes the result to the default-layout shape with the order of bytes that `boundary` declares."""
    if lies_as_written(boundary.result):
        return
    made: list[Instruction] = []
    leaves = _each(to_physical, explode(entry.root, made), boundary.result)
    old = entry.root
    entry.set_root(assemble(entry, physical_shape(boundary.result), leaves, made))
    if isinstance(old.op, Tuple) and not old.users:
        entry.remove(old)
