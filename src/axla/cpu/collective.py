"""Writes collectives into the entry function, as calls of the engine that exchanges data between
participants.

The engine receives a description of the step, which is the same for all participants
(`codegen.native.collectives`), and the kernels that combine elements.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from math import prod

from axla.codegen.native.collectives import COLLECTIVE, Half, PartKind
from axla.core.dtypes import S32, S64, U32
from axla.core.errors import UnsupportedError, VerifyError
from axla.core.shape import Shape
from axla.cpu.places import ValuePlaces
from axla.program import abi
from axla.program.interface import Interface, RendezvousKey
from axla.program.kernels import Kernel
from axla.program.steps import ArrayValue, CollectiveStep

_PARTS = {
    "all-reduce": PartKind.FOLD, "reduce-scatter": PartKind.FOLD_OWN, "all-gather": PartKind.GATHER,
    "all-to-all": PartKind.EXCHANGE, "collective-permute": PartKind.TAKE,
    "collective-broadcast": PartKind.TAKE, "collective-reduce": PartKind.FOLD_ROOT,
    "ragged-all-to-all": PartKind.RAGGED,
}  # fmt: skip
_NUMBERS = {"replica-id": "replica", "partition-id": "partition"}
_FOLDING = (PartKind.FOLD, PartKind.FOLD_OWN, PartKind.FOLD_ROOT)
_MOST = 1 << 16
"""The highest number of participants of a program."""


def emit_collective(entry: ValuePlaces, step: CollectiveStep) -> None:
    """Writes the call of the function for a collective; it writes to the slices that `step.results` names.
    For `replica-id` and `partition-id`, writes a copy of the number in the frame instead.
    """
    f = entry.f
    if step.kind in _NUMBERS and [v.shape.logical for v in step.results] == [Shape(U32)]:
        (result,) = step.results
        array = entry.writable(result.memory, result.shape)
        f.store(entry.field(_NUMBERS[step.kind], "i32"), array.pointer, 4)
        return
    _check(step, entry.program.interface)
    operands = [entry.pointer(value.memory) for value in step.operands]
    results = [entry.pointer(value.memory) for value in step.results]
    shapes = [value.shape for value in step.results]
    each = [[s] for s in shapes] if len(step.folds) == len(shapes) else [shapes]
    folds = [_fold(entry, *fold) for fold in zip(step.folds, each, strict=False)]
    symbols = [f.glob(kernel.symbols[0]) for kernel in folds]
    # After the kernels there is space for the addresses that one call needs.
    addresses = [f.null()] * (len(step.results) - len(symbols) + 3 * len(step.results))
    # Other participants may read the lists of an asynchronous collective until it is done. It has a
    # rendezvous of its own, so its lists get stack slots of their own.
    own = 5 + 2 * step.rendezvous_keys[0] if step.rendezvous_keys and (step.starts or step.begun) else 1
    lists = (operands, own), (results, own + 1), ([*symbols, *addresses], 4)
    code = f.call_pointer(
        "i32", entry.function(step.function), f.params["frame"], f.data(description(entry, step, folds)),
        *(entry.pointers(values, slot) for values, slot in lists),
    )  # fmt: skip
    with f.if_(code.ne(0)):
        f.params["frame"].set(abi.FRAME, "error_step", step.function + 1)
        f.ret(code)


def _check(step: CollectiveStep, interface: Interface) -> None:
    """Raises VerifyError for a collective that would access memory beyond its operands and results (its
    kernels are verified elsewhere).
    """
    given, results = ([v.shape.logical for v in values] for values in (step.operands, step.results))
    keys, count, part = interface.rendezvous_keys, prod(interface.participants), _PARTS.get(step.kind)
    groups = [keys[n].members for n in step.rendezvous_keys if 0 <= n < len(keys)]
    group_of = {member: n for n, group in enumerate(groups) for member in group if 0 <= member < count}
    fit = len(groups) == len(step.rendezvous_keys) and len(group_of) == sum(map(len, groups))
    fit &= count <= _MOST
    fit &= all(group_of.get(a) == group_of.get(b, -1) for a, b in step.pairs) and len(results) > 0
    fit &= len(step.folds) in ({1, len(results)} if part in _FOLDING else {0}) and step.function >= 0
    if not fit or part is None or not all(_fit(step, part, given, results, len(g)) for g in groups):
        raise VerifyError(
            f"{step.name}: no {step.kind} is {', '.join(map(str, given))} -> {', '.join(map(str, results))} "
            f"in groups {groups} of {count} participants, with pairs {step.pairs} and kernels {step.folds}"
        )


def _fit(step: CollectiveStep, part: PartKind, given: list[Shape], results: list[Shape], size: int) -> bool:
    """Whether operands (`given`) and results fit a collective in a group of `size` members."""
    at, data = step.dimension, given[:-1] if step.dynamic_root else given
    if step.dynamic_root and given[-1:] != [Shape(S32, (len(data),))]:
        return False
    if part is PartKind.RAGGED:
        return len(data) == 6 and results == data[1:2] and _ragged(*data)
    if part is PartKind.EXCHANGE and at is None:
        return len(data) == size and set(data) == set(results) == {data[0]}
    grows, shrinks = (
        size if part is PartKind.GATHER else 1,
        size if part is PartKind.FOLD_OWN else 1,
    )
    brought = [(shape.dtype, shape.byte_size * grows) for shape in data]
    fit = brought == [(shape.dtype, shape.byte_size * shrinks) for shape in results]
    return fit and (at is not None or part is not PartKind.GATHER)


def _ragged(data: Shape, output: Shape, *indices: Shape) -> bool:
    """Whether the rows of data and output have the same shape and type, and the indices are equal shapes of
    s32 or s64, with one index for each member.
    """
    rows = data.rank > 0 < output.rank and data.dims[1:] == output.dims[1:] and data.dtype is output.dtype
    return rows and len(set(indices[:3])) == 1 and indices[0].dtype in (S32, S64)


def _fold(entry: ValuePlaces, name: str, shapes: list[Shape]) -> Kernel:
    """The kernel called `name`. It must combine the elements of two arrays of each of these shapes, and write
    the result over the first one.
    """
    kernel = next((kernel for kernel in entry.program.kernels if kernel.name == name), None)
    flat = [Shape(s.dtype, (max(s.size, 1),)) for s in shapes]
    taken = [p.shape.logical for p in kernel.computation.parameters] if kernel is not None else []
    if kernel is None or taken != flat * 2 or kernel.in_place != tuple((n, n) for n in range(len(flat))):
        raise VerifyError(f"{entry.program.name}: no kernel {name} combines {', '.join(map(str, flat))}")
    if kernel.plan is None or kernel.plan.blocks is None or len(kernel.symbols) > 1:
        raise UnsupportedError(f"{name}: kernels of kind {kernel.kind} cannot compute collectives")
    return kernel


def description(entry: ValuePlaces, step: CollectiveStep, folds: list[Kernel]) -> bytes:
    """The step as bytes in the form that the engine reads, with a digest. Equal collectives have equal
    digests, whatever the names of programs and steps and the numbers of rendezvous. `folds` are the kernels
    that combine elements; they are part of the digest by their names, which are digests too.
    """
    face, part = entry.program.interface, _PARTS[step.kind]
    if part is PartKind.EXCHANGE and step.dimension is None:
        part = PartKind.EXCHANGE_OPERANDS
    if part is PartKind.TAKE and step.dynamic_root:
        part = PartKind.TAKE_DYNAMIC
    together = len(folds) == 1 and len(step.results) > 1
    indices = step.operands[2].shape if part is PartKind.RAGGED else None
    half = Half.START if step.starts else Half.DONE if step.begun else Half.BOTH
    head = {
        "half": half, "kind": part, "count": 2 if part is PartKind.RAGGED else len(step.results),
        "together": together, "rooted": step.dynamic_root, "indices": indices.size if indices else 0,
        "index_bytes": indices.dtype.itemsize if indices else 0,
    }  # fmt: skip
    words: list[int] = []
    members = max((len(face.rendezvous_keys[n].members) for n in step.rendezvous_keys), default=1)
    for number, (operand, result) in enumerate(zip(step.operands, step.results, strict=False)):
        kernel = folds[0 if together else number] if folds else None
        words += _moved(part, step, operand, result, members, kernel)
    if part is PartKind.RAGGED:
        words += _rows(step.operands[1])
    given, results = ([str(v.shape) for v in values] for values in (step.operands, step.results))
    same = step.kind, given, results, step.pairs, step.dimension, step.dynamic_root, step.folds, words
    digest = blake2b(repr(same).encode(), digest_size=8).digest()
    for participant in range(prod(face.participants)):
        words += _seat(step, face.rendezvous_keys, participant)
    head["digest"] = int.from_bytes(digest, "little", signed=True)
    head["text"] = COLLECTIVE.size + 8 * len(words)
    words = [*(head[field.name] for field in COLLECTIVE.fields), *words]
    text = f"{step.kind} %{step.name} of {', '.join(given)} in {face.name}"
    return struct.pack(f"<{len(words)}q", *words) + text.encode() + b"\0"


def _moved(
    part: PartKind,
    step: CollectiveStep,
    operand: ArrayValue,
    result: ArrayValue,
    members: int,
    kernel: Kernel | None,
) -> list[int]:
    """The fields of the MOVED struct of an operand: the number of its rows or blocks, the bytes of each, and
    the bytes of the result. `kernel` is the kernel that combines elements, None if none does.
    """
    shape, total = operand.shape, result.shape.byte_size
    if kernel is not None and kernel.plan.blocks is not None:
        blocks, length = kernel.plan.blocks
        return [blocks if total else 0, length * shape.dtype.itemsize, total]
    if part is PartKind.RAGGED:
        return _rows(operand)
    if part not in (PartKind.GATHER, PartKind.EXCHANGE):
        return [1, total, total]
    assert step.dimension is not None
    rows = prod(shape.dims[: step.dimension])
    block = shape.byte_size // max(rows, 1) // (members if part is PartKind.EXCHANGE else 1)
    return [rows, block, total]


def _rows(value: ArrayValue) -> list[int]:
    """The fields of a MOVED struct for an array: the number of rows along dimension 0, the bytes of a row,
    and all bytes.
    """
    rows, total = value.shape.dims[0], value.shape.byte_size
    return [rows, total // max(rows, 1), total]


def _seat(step: CollectiveStep, keys: tuple[RendezvousKey, ...], participant: int) -> list[int]:
    """The fields of the SEAT struct of a participant: the number of its rendezvous, -1 if it has none; its
    position in the group; and the position of the member whose data it takes, -1 if it takes none.
    """
    for number in step.rendezvous_keys:
        members = keys[number].members
        if participant in members:
            sources = [members.index(a) for a, b in step.pairs if b == participant]
            source = (sources[0] if sources else -1) if step.kind == "collective-permute" else 0
            return [number, members.index(participant), source]
    return [-1, 0, -1]
