"""Rules for buffers, b(f32[2]): mutable memory that ops pass on, so that each state has one writer.

buffer_entry   the entry has no buffers among its parameters and its result
buffer_pin     Pin makes a buffer of an array, and Unpin an array of a buffer, in the same memory
buffer_result  a buffer that a custom call returns is one of its operands, each once, or a new one
buffer_lost    a custom call returns every buffer that is its operand
buffer_writer  only one instruction uses a buffer
"""

from __future__ import annotations

from axla.core.shape import AnyShape, BufferShape
from axla.core.shape_util import indexed_leaves
from axla.ir.families import External
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.structure import GetTupleElement, Parameter, Tuple
from axla.ir.traverse import post_order
from axla.ir.typed import applies, tuple_of
from axla.ir.verify.failure import fail

BufferLeaf = tuple[Instruction, int]
"""An instruction whose result has buffers, and the number of a leaf of the result."""

PINS = ("Pin", "Unpin")


def verify_buffers(module: Module) -> None:
    """Raises VerifyError if a buffer is lost or duplicated, or has two writers."""
    found = [c for c in module.computations if any(_makes_buffers(i) for i in c.instructions)]
    if not found:
        return
    for inst in (*module.entry.parameters, module.entry.root):
        if _has_buffers(inst.shape):
            fail("buffer_entry", f"{inst!r}: parameters and result of the entry must not have buffers")
    for computation in found:
        for inst in computation.instructions:
            if applies(inst, External):
                _verify_custom_call(inst)
        _verify_writers(computation)


def _has_buffers(shape: AnyShape) -> bool:
    return any(isinstance(leaf, BufferShape) for leaf in shape.leaves())


def _makes_buffers(inst: Instruction) -> bool:
    return isinstance(inst.op, Parameter | External) and _has_buffers(inst.shape)


def _verify_custom_call(inst: Instruction[External]) -> None:
    aliases, target = inst.op.output_to_operand_aliasing, inst.op.custom_call_target
    if target in PINS:
        if len(aliases) != 1 or len(inst.operands) != 1:
            fail("buffer_pin", f"{inst!r}: custom-call to {target} must have one output-to-operand aliasing")
        return
    places = enumerate(_places(operand.shape) for operand in inst.operands)
    taken = [(number, index) for number, inside in places for index in inside]
    given = [(a.operand, tuple(a.index)) for a in aliases]
    for place in taken:
        if given.count(place) > 1:
            fail("buffer_result", f"{inst!r}: buffer is used in results multiple times: operand {place}")
        if place not in given:
            fail("buffer_lost", f"{inst!r}: buffer is used in operands but not in results: operand {place}")
    made = {tuple(a.output) for a in aliases}
    for index in _places(inst.shape):
        if index not in made and inst.operands:
            fail("buffer_result", f"{inst!r}: buffer is used in results but not in operands: result {index}")


def _places(shape: AnyShape) -> list[tuple[int, ...]]:
    """The tuple indices of the buffers in a shape."""
    return [index for index, leaf in indexed_leaves(shape) if isinstance(leaf, BufferShape)]


def _verify_writers(computation: Computation) -> None:
    """Checks that each buffer is used by one instruction, or returned to the caller. Tuples and
    get-tuple-elements do not count, as they only pass buffers on.
    """
    made: dict[Instruction, list[BufferLeaf | None]] = {}
    writers: dict[BufferLeaf, Instruction] = {}
    for inst in post_order(computation):
        made[inst] = _sources(inst, made)
        if not isinstance(inst.op, Tuple | GetTupleElement):
            for operand in inst.operands:
                _count(made[operand], inst, writers)
    _count(made[computation.root], computation.root, writers)


def _sources(inst: Instruction, made: dict[Instruction, list[BufferLeaf | None]]) -> list[BufferLeaf | None]:
    """For each leaf of the value of `inst`, the instruction and leaf that created the buffer; None if the
    leaf is not a buffer. `made` has this list for each operand.
    """
    if isinstance(inst.op, Tuple):
        return [place for operand in inst.operands for place in made[operand]]
    if isinstance(inst.op, GetTupleElement):
        whole = tuple_of(inst.operands[0])
        start = whole.leaf_starts[inst.op.index]
        return made[inst.operands[0]][start : start + inst.shape.leaf_count]
    leaves = enumerate(inst.shape.leaves())
    return [(inst, n) if isinstance(leaf, BufferShape) else None for n, leaf in leaves]


def _count(
    places: list[BufferLeaf | None], user: Instruction, writers: dict[BufferLeaf, Instruction]
) -> None:
    for place in places:
        if place is None:
            continue
        if place in writers:
            other = writers[place]
            what = f"a buffer of {place[0]!r} has more than one writer, {other!r} and {user!r}"
            fail("buffer_writer", f"{what}")
        writers[place] = user
