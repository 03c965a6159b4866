"""Imports a whole program: functions become computations, and the module's header gets the attributes of the
entry's arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from axla.builder.xla_builder import identifier_of
from axla.core.errors import AxlaError, VerifyError
from axla.core.shape import AnyShape, Layout, ProgramShape, Shape, TupleShape
from axla.hlo import CustomCall
from axla.ir.graph import Alias, Computation, Extra, Instruction, Module
from axla.ir.sharding import Sharding
from axla.ir.structure import Parameter, Tuple
from axla.ir.traverse import computations_callees_first, run_nested
from axla.passes.expand.manual import WHOLE_ARRAYS
from axla.stablehlo import mlir
from axla.stablehlo.importer.origin import frontend_attributes, sharding
from axla.stablehlo.importer.scope import CONSTANT, ImportRule, ModuleImport, count, placed
from axla.stablehlo.names import NAMES, Names, result_names
from axla.stablehlo.text.printer import attribute_text

_FRONTEND = "mhlo.frontend_attributes"
CALLEES = {
    "func.call": ("callee",),
    "stablehlo.composite": ("decomposition",),
    "stablehlo.custom_call": ("called_computations",),
    "interpreter.run_parallel": ("programs", "infeed"),
}
"""The operations that name functions, with the attributes that have the names."""


def symbols(attribute: Any) -> Iterator[str]:
    """The names in an attribute, which is a symbol or nested lists of symbols."""
    stack = [attribute]
    while stack:
        found = stack.pop()
        if isinstance(found, tuple):
            stack += reversed(found)
        elif isinstance(found, mlir.SymbolRef):
            yield found.root


def callees(operation: mlir.Operation) -> list[str]:
    """The names of the functions that an operation refers to."""
    attributes = operation.attributes
    return [name for key in CALLEES.get(operation.name, ()) for name in symbols(attributes.get(key))]


def functions_of(source: mlir.Source) -> dict[str, mlir.Operation]:
    """The functions of a source by name. Raises VerifyError for a function without a name, or for two with
    one name.
    """
    found: dict[str, mlir.Operation] = {}
    if not source.module.regions or not source.module.regions[0].blocks:
        raise VerifyError("builtin.module must have a body")
    for operation in source.body:
        if operation.name != "func.func":
            continue
        name = operation.attributes.get("sym_name")
        if not isinstance(name, str) or name in found:
            error = VerifyError(f"the attribute sym_name must be a unique name, found {name}")
            raise placed(error, operation)
        found[name] = operation
    return found


class Importer(ModuleImport):
    """Imports a source, function by function."""

    def __init__(self, source: mlir.Source, rules: Mapping[str, ImportRule]) -> None:
        name = source.module.attributes.get("sym_name")
        super().__init__(source, rules, identifier_of(name) if isinstance(name, str) and name else "main")
        self.functions = functions_of(source)

    # Functions.

    def run(self, entry: str) -> Module:
        """Imports the function `entry` and those that it calls, callees first."""
        order: dict[str, None] = {}
        run_nested(self._callees_first(entry, order, set()))
        for name in order:
            function = self.functions[name]
            try:
                self._function(name, function, is_entry=name == entry)
            except AxlaError as error:
                raise placed(error, function) from None
        _describe(self, self.functions[entry])
        numbers = {c: n for n, c in enumerate(computations_callees_first(self.module))}
        self.module.order_computations(numbers.__getitem__)
        return self.module

    def _callees_first(self, name: str, done: dict[str, None], active: set[str]) -> Iterator[Any]:
        """Adds the function `name` to `done` after the functions that it calls, for each of which it yields a
        generator that adds the callee. `active` has the functions begun but not yet added. Raises VerifyError
        for recursion.
        """
        active.add(name)
        callers = self._scan(self.functions[name])
        for callee, caller in callers.items():
            if callee not in self.functions:
                raise placed(VerifyError(f"there is no function @{callee}"), caller)
            if callee in active:
                raise VerifyError(f"function @{callee} calls itself, which HLO does not have")
        for callee in reversed(callers):
            if callee not in done:
                yield self._callees_first(callee, done, active)
        active.discard(name)
        done[name] = None

    def _scan(self, function: mlir.Operation) -> dict[str, mlir.Operation]:
        """Records which outer values the regions of a function use; returns the functions called, each with
        one of its callers.
        """
        level: dict[mlir.Value, int] = {}
        callers: dict[str, mlir.Operation] = {}
        # The outer values that each open region uses, outermost region first.
        captures: list[dict[mlir.Value, None]] = []
        stack: list[tuple[Any, int]] = [(iter(r.blocks), 0) for r in function.regions]
        while stack:
            remaining, depth = stack[-1]
            found = next(remaining, None)
            del captures[depth:]
            if found is None:
                stack.pop()
            elif isinstance(found, mlir.Block):
                level.update((a, depth) for a in found.arguments)
                stack.append((iter(found.operations), depth))
            elif isinstance(found, mlir.Region):
                captures.append({})
                self.captures[id(found)] = captures[-1]
                stack.append((iter(found.blocks), depth + 1))
            else:
                for value in found.operands:
                    at = level.get(value, depth)
                    if at < depth and getattr(value.owner, "name", "") != CONSTANT:
                        for inner in captures[at:depth]:
                            inner[value] = None
                level.update((r, depth) for r in found.results)
                for callee in callees(found):
                    callers.setdefault(callee, found)
                if found.regions:
                    stack.append((iter(found.regions), depth))
        return callers

    def _function(self, name: str, function: mlir.Operation, *, is_entry: bool) -> None:
        block = function.body
        if block is None:
            found = len(function.blocks)
            raise VerifyError(f"function @{name} must have a body of one block, found {found}")
        computation = self.module.add_computation(identifier_of(name), entry=is_entry)
        self.computations[name] = computation
        self.plain(block, computation, function.attributes.get("arg_attrs"))


def _describe(importer: Importer, function: mlir.Operation) -> None:
    """Sets the module's header from the attributes of the source and of the entry's arguments and results."""
    module, entry = importer.module, importer.module.entry
    attributes = importer.source.module.attributes
    results = _dictionaries(function, "res_attrs")
    aliases, donors, layouts = [], [], []
    for number, said in enumerate(_dictionaries(function, "arg_attrs")):
        output = said.get("tf.aliasing_output")
        if isinstance(output, mlir.IntegerAttr):
            index = (output.value,) if entry.root.shape.is_tuple else ()
            aliases.append(Alias(index, number, ()))
        if said.get("jax.buffer_donor"):
            donors.append((number, ()))
        layouts.append(said.get("mhlo.layout_mode"))
    meshes = [op.attributes for op in importer.source.body if op.name == "sdy.mesh"]
    frontend = dict(frontend_attributes({_FRONTEND: attributes.get(_FRONTEND)}))
    if names := result_names([said.get("jax.result_info") for said in results]):
        places = [p.extra.location for p in entry.parameters]
        called = [place.op_name if place else "" for place in places]
        arguments = [place or p.name for place, p in zip(called, entry.parameters, strict=True)]
        frontend.setdefault(NAMES, Names(tuple(arguments), names).text)
    if meshes:
        frontend["xla.sdy.meshes"] = attribute_text({m.get("sym_name"): m.get("mesh") for m in meshes})
    partitions = importer.partitions
    said_of = [p.extra.sharding for p in entry.parameters] + [*map(sharding, results)]
    if partitions > 1 and (meshes or any(said_of)):
        frontend[WHOLE_ARRAYS] = "true"
    module.set_config(
        aliases=tuple(aliases), buffer_donors=tuple(donors),
        frontend_attributes=tuple(sorted(frontend.items())),
        replica_count=count(attributes, "mhlo.num_replicas"),
        num_partitions=partitions,
    )  # fmt: skip
    layouts += [None] * (len(entry.parameters) - len(layouts))
    modes = [said.get("mhlo.layout_mode") for said in results]
    if any(isinstance(m, str) and m.startswith("{") for m in (*layouts, *modes)):
        module.set_config(entry_layout=_entry_layout(entry, layouts, modes))
    _describe_results(entry, results, partitions)


def _describe_results(entry: Computation, results: list[dict[str, Any]], partitions: int) -> None:
    """Adds the shardings of results: as the sharding of the root if every result has one, unless the root is
    a parameter or has a sharding. Otherwise, if there are several partitions, adds a custom call for each
    result with a sharding or frontend attributes.
    """
    root = entry.root
    parts = [sharding(said) for said in results]
    if parts and all(parts) and not isinstance(root.op, Parameter) and not root.extra.sharding:
        whole = Sharding(parts=tuple(filter(None, parts))) if root.shape.is_tuple else parts[0]
        entry.set_extra(root, replace(root.extra, sharding=whole))
    elif partitions > 1:
        for number, said in enumerate(results):
            if isinstance(root.op, Tuple):
                entry.set_operand(root, number, _marked(root.operands[number], said))
            else:
                entry.set_root(_marked(root, said))


def _marked(value: Instruction, said: dict[str, Any]) -> Instruction:
    extra = Extra(value.extra.location, sharding(said), frontend_attributes(said))
    if not isinstance(value.shape, Shape) or not (extra.sharding or extra.frontend_attributes):
        return value
    op = CustomCall(value.shape, custom_call_target="Sharding")
    return value.computation.add(op, (value,), extra=extra)


def _dictionaries(function: mlir.Operation, name: str) -> list[dict[str, Any]]:
    found = function.attributes.get(name, ())
    return [d if isinstance(d, dict) else {} for d in found] if isinstance(found, tuple) else []


def _entry_layout(entry: Computation, arguments: Sequence[Any], results: Sequence[Any]) -> ProgramShape:
    """The entry's types, with the layouts of arguments and results that are given."""
    shape = entry.program_shape
    root = shape.result
    outputs = list(root.elements) if isinstance(root, TupleShape) else [root]
    found = [_laid_out(s, mode) for s, mode in zip(outputs, results, strict=False)]
    found += outputs[len(found) :]
    parameters = [_laid_out(s, mode) for s, mode in zip(shape.parameters, arguments, strict=True)]
    result = TupleShape(found) if isinstance(root, TupleShape) else found[0]
    return ProgramShape(tuple(parameters), result, shape.names)


def _laid_out(shape: AnyShape, mode: Any) -> AnyShape:
    """The shape with the layout in a text such as {0,1}; with "default" or "auto" it has the default
    layout.
    """
    given = re.match(r"\{([\d,\s]*)", mode) if isinstance(mode, str) else None
    if given is None or not isinstance(shape, Shape):
        return shape
    order = tuple(int(d) for d in given[1].split(",") if d.strip())
    if sorted(order) != list(range(shape.rank)):
        raise VerifyError(f"mhlo.layout_mode {mode} is not a layout of {shape.to_string(layout=False)}")
    return shape.with_layout(Layout(order))
