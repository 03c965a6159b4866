"""Specializes one function: propagates types from operation to operation, into regions and calls."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from axla.core.errors import AxlaError, InvalidArgument, UnsupportedError, VerifyError
from axla.stablehlo import mlir
from axla.stablehlo import reading as attr
from axla.stablehlo.building import Builder, numbers
from axla.stablehlo.importer.program import callees
from axla.stablehlo.importer.scope import CONSTANT, DEEPEST, RETURNS, placed, position_of
from axla.stablehlo.sizes import Bounded, is_open, refined, refined_type, sizes_of
from axla.stablehlo.specialize.calls import (
    ASSERTION,
    CALLS,
    FunctionInstances,
    Held,
    Instance,
    InstanceRequest,
    Known,
    Work,
)
from axla.stablehlo.specialize.folding import element_type, folded, is_foldable, known_value
from axla.stablehlo.specialize.forms import FORMS, Given, reduce_window
from axla.stablehlo.specialize.inference import result_types
from axla.stablehlo.text.printer import type_text

WINDOWS = "stablehlo.dynamic_reduce_window"


class Writer(Builder):
    """Writes one instance of a function."""

    def __init__(self, owner: FunctionInstances) -> None:
        super().__init__(mlir.Block())
        self.owner = owner
        self.values: dict[mlir.Value, Held] = {}
        # Constants of the open blocks, outermost block first.
        self.constants: list[dict[Known, mlir.Value]] = []

    # Functions, blocks.

    def function(self, function: mlir.Operation, request: InstanceRequest) -> Work:
        """Writes the function for the types and values of a request; returns the instance. Yields requests
        for the instances that it calls.
        """
        old, given = function.body, request.arguments
        if old is None:
            raise VerifyError(f"function @{request.name} must have a body of one block")
        if len(old.arguments) != len(given):
            raise VerifyError(f"@{request.name} takes {len(old.arguments)} operands, found {len(given)}")
        remain = [n for n, a in enumerate(given) if request.all_parameters or not isinstance(a, Known)]
        types = [refined_type(old.arguments[n].type, given[n].type) for n in remain]
        block = mlir.Block(types, [old.locations[n] for n in remain] if old.locations else None)
        self.values = {v: a for v, a in zip(old.arguments, given, strict=True) if isinstance(a, Known)}
        for number, new in zip(remain, block.arguments, strict=True):
            self.values.setdefault(old.arguments[number], new)
        returned = yield from self.fill(old, block, all_results=request.all_results)
        left = [n for n, r in enumerate(returned) if request.all_results or not isinstance(r, Known)]
        results = [v.type for v in block.terminator.operands]
        attributes = dict(function.attributes)
        name = attributes["sym_name"] = self.owner.name_for(request.name)
        attributes["function_type"] = mlir.FunctionType(tuple(types), tuple(results))
        for key, places in (("arg_attrs", remain), ("res_attrs", left)):
            said = attributes.get(key)
            if isinstance(said, tuple) and len(said) > max(places, default=-1):
                attributes[key] = tuple(said[n] for n in places)
        operation = function.with_regions([mlir.Region([block])], attributes)
        known = [r if isinstance(r, Known) else None for r in returned]
        pure = all(op.name == CONSTANT or op.name in RETURNS for op in block.operations)
        return Instance(name, [r.type for r in returned], known, operation, pure)

    def fill(self, old: mlir.Block, block: mlir.Block, *, all_results: bool = True) -> Work:
        """Writes the operations of the block `old` into `block`; returns the values that `old` returns. Known
        values are operands of the written return only with `all_results`.
        """
        if not old.operations or old.terminator.name not in RETURNS:
            raise VerifyError("a region must end with a return")
        if len(self.constants) >= DEEPEST:
            raise UnsupportedError(f"regions are nested more than {DEEPEST} deep")
        outer, self.block = self.block, block
        self.constants.append({})
        operation = old.terminator
        try:
            for operation in old.operations[:-1]:
                if operation.regions or operation.name in CALLS:
                    yield from self._nested(operation)
                elif operation.attributes.get("call_target_name") == WINDOWS:
                    yield from self._windows(operation)
                else:
                    self._plain(operation)
            operation = old.terminator
            found = [self.held(v) for v in operation.operands]
        except AxlaError as error:
            raise placed(error, operation) from None
        left = [held for held in found if all_results or not isinstance(held, Known)]
        self.replace(operation, operation.name, left, (), operation.attributes)
        self.block = outer
        self.constants.pop()
        return found

    # Values.

    def held(self, value: mlir.Value) -> Held:
        """Returns the replacement of `value`, a value of the original function: an MLIR value of the new
        function, or a known value. Raises VerifyError if `value` is not defined yet.
        """
        found = self.values.get(value)
        if found is None:
            raise VerifyError("an operand is used before it is computed")
        return found

    def written(self, held: Held) -> mlir.Value:
        """Returns a value as an MLIR value; a known value is a constant in this block or an enclosing one."""
        if isinstance(held, mlir.Value):
            return held
        for constants in reversed(self.constants):
            if held in constants:
                return constants[held]
        if not isinstance(held.type, mlir.TensorType):
            raise UnsupportedError(f"a value of the type {type_text(held.type)} can only be used for sizes")
        array = held.array
        if array.size > 1 and (array == array.flat[0]).all():
            array = np.asarray(array.flat[0])
        place = self.location, self.position
        self.location, self.position = None, (0, 0)
        if held.origin is not None:
            self.stand_for(held.origin)
        value = self.make("constant", (), held.type, {"value": mlir.DenseElements(held.type, array)})
        self.location, self.position = place
        self.constants[-1][held] = value
        return value

    def place(self, operation: mlir.Operation) -> None:
        """Counts an operation and adds it to the block."""
        self.owner.count()
        super().place(operation)

    def replace(
        self, old: mlir.Operation, name: str, operands: Sequence[Held], types: Sequence[mlir.Type],
        attributes: dict[str, Any], regions: list[mlir.Region] | None = None,
    ) -> None:  # fmt: skip
        """Writes an operation in place of an old one; its results replace the old results."""
        self.stand_for(old)
        made = self.emit(name, list(map(self.written, operands)), types, attributes, regions)
        self.values.update(zip(old.results, made, strict=True))

    # Operations without regions.

    def _plain(self, operation: mlir.Operation) -> None:
        operands = [self.held(v) for v in operation.operands]
        if self._fold(operation, operands) or self._moving_slice(operation, operands):
            return
        stand_in = operation
        rule = FORMS.get(operation.name)
        form = None if rule is None else rule(_given(operation, operands))
        if form is not None:
            operands = [operands[n] for n in form.kept]
            types = [r.type for r in operation.results]
            if form.sizes is not None:
                rows = form.sizes if isinstance(form.sizes, list) else [form.sizes] * len(types)
                types = list[mlir.Type](map(refined, types, rows))
            kept = [operation.operands[n] for n in form.kept]
            stand_in = mlir.Operation(form.name, kept, types, form.attributes)
            if self._fold(stand_in, operands):
                self.values[operation.results[0]] = self.values.pop(stand_in.results[0])
                return
        types = [r.type for r in stand_in.results]
        if any(map(is_open, types)):
            types = result_types(stand_in, [o.type for o in operands])
        for callee in callees(stand_in):
            self.owner.keep(callee)
        self.replace(operation, stand_in.name, operands, types, stand_in.attributes)

    def _moving_slice(self, operation: mlir.Operation, operands: Sequence[Held]) -> bool:
        """Rewrites a real_dynamic_slice with a dynamic start and a known size to a dynamic_slice; returns
        whether it did. The size is the constant that was added to the start to compute the limit, or the
        result type has it.
        """
        if operation.name != "stablehlo.real_dynamic_slice" or len(operands) != 4:
            return False
        operand, start, limit, strides = operands
        apart = isinstance(strides, Known) and not (strides.array == 1).all()
        if isinstance(start, Known) or isinstance(strides, mlir.Value) or apart:
            return False
        sizes = sizes_of(operation.results[0].type)
        if None in sizes and isinstance(limit, mlir.Value):
            added = _added(limit, start)
            sizes = sizes if added is None else tuple(int(n) for n in added)
        if None in sizes or not isinstance(start.type, mlir.TensorType):
            return False
        self.stand_for(operation)
        scalars, type_ = self.scalars(start, len(sizes)), refined(operation.results[0].type, sizes)
        given = {"slice_sizes": numbers(sizes)}
        self.replace(operation, "stablehlo.dynamic_slice", [operand, *scalars], [type_], given)
        return True

    def _fold(self, operation: mlir.Operation, operands: Sequence[Held]) -> bool:
        """Folds an operation whose result is known, or an assertion that holds; returns whether it did."""
        name = operation.name
        if name == "stablehlo.custom_call" and operation.attributes.get("call_target_name") == ASSERTION:
            _assert(operation, operands)
            return True
        if len(operation.results) != 1:
            return False
        type_ = operation.results[0].type
        if name in _CONSTANTS:
            found = known_value(operation.attributes.get(_CONSTANTS[name]), type_)
        else:
            found = _size(operation, operands) if name in _SIZES else None
            found = _folded(operation, operands) if found is None else found
        if found is None:
            return False
        if isinstance(type_, mlir.TensorType):
            if found.ndim == 0 and type_.shape and not is_open(type_):
                found = np.broadcast_to(found, [d for d in sizes_of(type_) if d is not None])
            type_ = refined(type_, found.shape)
        self.values[operation.results[0]] = Known(type_, found, operation)
        return True

    # Operations with regions, calls.

    def _nested(self, operation: mlir.Operation) -> Work:
        operands = [self.held(v) for v in operation.operands]
        if operation.name in CALLS:
            yield from self._call(operation, operands)
            return
        if operation.name == "stablehlo.reduce" and self._fold(operation, operands):
            return
        types = [o.type for o in operands]
        regions: list[mlir.Region] = []
        returned: list[list[mlir.Type]] = []
        for number, region in enumerate(operation.regions):
            if len(region.blocks) != 1:
                raise VerifyError(f"region {number} must be one block, found {len(region.blocks)}")
            (old,) = region.blocks
            given = types if operation.name == "stablehlo.while" else [a.type for a in old.arguments]
            if len(given) != len(old.arguments):
                raise VerifyError(f"region {number} takes {len(old.arguments)} values, found {len(given)}")
            if any(map(is_open, given)):
                raise UnsupportedError("a region with arguments of unknown sizes")
            taken = [refined_type(a.type, t) for a, t in zip(old.arguments, given, strict=True)]
            block = mlir.Block(taken, old.locations)
            self.values.update(zip(old.arguments, block.arguments, strict=True))
            yield from self.fill(old, block)
            regions.append(mlir.Region([block]))
            returned.append([v.type for v in block.terminator.operands])
        found = _results(operation, types, returned)
        self.replace(operation, operation.name, operands, found, operation.attributes, regions)

    def _call(self, operation: mlir.Operation, operands: list[Held]) -> Work:
        name = attr.symbol(operation, CALLS[operation.name])
        owner = self.owner
        if name not in owner.functions:
            raise VerifyError(f"there is no function @{name}")
        if name in owner.active:
            raise VerifyError(f"function @{name} calls itself, which HLO does not have")
        composite, attributes = operation.name != "func.call", operation.attributes
        if name not in owner.open and (composite or not all(isinstance(o, Known) for o in operands)):
            owner.keep(name)
            self.replace(operation, operation.name, operands, [r.type for r in operation.results], attributes)
            return
        instance = yield InstanceRequest(name, operands, composite, composite)
        if len(instance.types) != len(operation.results):
            raise VerifyError(f"@{name} returns {len(instance.types)} values, not {len(operation.results)}")
        known = {v: k for v, k in zip(operation.results, instance.known, strict=True) if k is not None}
        self.values.update(known)
        if instance.pure and len(known) == len(instance.known):
            return
        attributes = {**attributes, CALLS[operation.name]: mlir.SymbolRef(instance.name)}
        left = [n for n, result in enumerate(operation.results) if composite or result not in known]
        given = [self.written(o) for o in operands if composite or not isinstance(o, Known)]
        self.stand_for(operation)
        made = self.emit(operation.name, given, [instance.types[n] for n in left], attributes)
        owner.called[instance.name] = instance.operation
        for number, result in zip(left, made, strict=True):
            self.values.setdefault(operation.results[number], result)

    def _windows(self, operation: mlir.Operation) -> Work:
        """Writes a reduce_window for a dynamic one, whose region is the function that it calls."""
        form = reduce_window(_given(operation, [self.held(v) for v in operation.operands]))
        function = self.owner.functions.get(form.reducer)
        if function is None or function.body is None or not function.body.operations:
            raise VerifyError(f"there is no function @{form.reducer} of one block")
        body, block = function.body, mlir.Block()
        end = mlir.Operation("stablehlo.return", body.terminator.operands, ())
        block.arguments, block.operations = body.arguments, [*body.operations[:-1], end]
        stand_in = mlir.Operation(
            form.name, [operation.operands[n] for n in form.kept], [r.type for r in operation.results],
            form.attributes, [mlir.Region([block])], operation.location, operation.position,
        )  # fmt: skip
        yield from self._nested(stand_in)
        for old, new in zip(operation.results, stand_in.results, strict=True):
            self.values[old] = self.values.pop(new)


_CONSTANTS = {CONSTANT: "value", "arith.constant": "value", "shape.const_shape": "shape"}
_SIZES = ("stablehlo.get_dimension_size", "tensor.dim", "shape.shape_of")


def _given(operation: mlir.Operation, operands: Sequence[Held]) -> Given:
    values = [o.array if isinstance(o, Known) else None for o in operands]
    return Given(operation, [o.type for o in operands], values)


def _size(operation: mlir.Operation, operands: Sequence[Held]) -> np.ndarray | None:
    """The size of a dimension, or all sizes, whichever an operation queries of its operand; None if a size is
    not known.
    """
    wanted = element_type(operation.results[0].type)
    sizes = sizes_of(operands[0].type) if operands else ()
    if any(isinstance(d, Bounded) for d in sizes) and operation.name != _SIZES[0]:
        raise UnsupportedError("a size that is bounded is known only when the program runs")
    if operation.name == "shape.shape_of":
        return np.asarray(sizes, wanted)
    if operation.name == "tensor.dim":
        index = operands[1]
        at = int(index.array) if isinstance(index, Known) else -1
    else:
        at = attr.integer(operation, "dimension")
    if not 0 <= at < len(sizes):
        raise VerifyError(f"dimension={at}: its operand has {len(sizes)} dimensions")
    size = sizes[at]
    return None if isinstance(size, Bounded) or size is None else np.asarray(size, wanted)


def _folded(operation: mlir.Operation, operands: Sequence[Held]) -> np.ndarray | None:
    """Evaluates an operation if all operands are known; else returns None."""
    type_ = operation.results[0].type
    values = [o.array for o in operands if isinstance(o, Known)]
    if len(values) != len(operands):
        return None
    if is_open(type_) and is_foldable(operation):
        (type_,) = result_types(operation, [o.type for o in operands])
    return folded(operation, values, type_)


def _added(total: mlir.Value, start: mlir.Value) -> np.ndarray | None:
    """The known value that was added to `start` to compute `total`; None if there is none."""
    made = total.owner
    if not isinstance(made, mlir.Operation) or made.name != "stablehlo.add" or start not in made.operands:
        return None
    other = made.operands[1 - made.operands.index(start)]
    if not isinstance(other.owner, mlir.Operation) or other.owner.name != CONSTANT:
        return None
    return known_value(other.owner.attributes.get("value"), other.type)


def _results(
    operation: mlir.Operation, operands: list[mlir.Type], returned: list[list[mlir.Type]]
) -> list[mlir.Type]:
    """The types of an operation's results. `returned` has the types that each of its regions returns."""
    written = [r.type for r in operation.results]
    if operation.name == "stablehlo.while":
        returned, found = returned[1:], [refined_type(w, t) for w, t in zip(written, operands, strict=True)]
    elif operation.name in ("stablehlo.if", "stablehlo.case"):
        if any(len(r) != len(written) for r in returned):
            raise VerifyError(f"its regions must return {len(written)} values")
        found = [_joined(w, [r[n] for r in returned]) for n, w in enumerate(written)]
    else:
        return result_types(operation, operands) if any(map(is_open, written)) else written
    for types in returned:
        for wanted, type_ in zip(found, types, strict=False):
            refined_type(wanted, type_)
    return found


def _joined(written: mlir.Type, branches: list[mlir.Type]) -> mlir.Type:
    """The type of a result of branches, whose written type may have open sizes. A size that is bounded in
    some branch has the bound of the first such branch; any other one is that of the first branch.
    """
    if not isinstance(written, mlir.TensorType) or not is_open(written):
        return written
    columns = zip(*[sizes_of(t) for t in branches], strict=True)
    sizes = [next((d for d in column if isinstance(d, Bounded)), column[0]) for column in columns]
    return refined(written, sizes)


def _assert(operation: mlir.Operation, operands: Sequence[Held]) -> None:
    """Checks a shape assertion; raises InvalidArgument if it does not hold. In its message, `{0}`, `{1}`...
    stand for the other operands.
    """
    if not operands or not isinstance(operands[0], Known):
        raise UnsupportedError(
            "a shape assertion depends on values that are known only when the program runs"
        )
    if operands[0].array.all():
        return
    message = operation.attributes.get("error_message", operation.attributes.get("backend_config"))
    said = [str(o.array.item()) if isinstance(o, Known) and o.array.size == 1 else "?" for o in operands[1:]]

    def insert(found: re.Match[str]) -> str:
        number = int(found[1])
        return said[number] if number < len(said) else found[0]

    text = re.sub(r"\{(\d{1,9})[^{}]*\}", insert, message) if isinstance(message, str) else "it does not hold"
    raise InvalidArgument(f"shape assertion{position_of(operation)}: {text}")
