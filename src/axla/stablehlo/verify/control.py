"""Rules for control flow, tuples, custom calls and asynchronous operations."""

from __future__ import annotations

import re
from typing import Any

from axla.core.shape_util import LeafPath
from axla.stablehlo import mlir
from axla.stablehlo.verify.attributes import sizes_of, table
from axla.stablehlo.verify.kinds import Facts, sizes_fit, types_fit
from axla.stablehlo.verify.subject import Subject

_NAMESPACED = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*([.][a-zA-Z0-9_$]+)+")
_IN_ASYNC = frozenset({
    "all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute", "slice",
    "collective_reduce", "dynamic_slice", "dynamic_update_slice", "reduce_scatter",
})  # fmt: skip


def _match(s: Subject, rule: str, message: str, wanted: list[Facts], found: list[Facts]) -> None:
    """Checks that the types `wanted` and `found` fit one by one."""
    if len(wanted) != len(found) or not all(map(types_fit, wanted, found)):
        s.fail(rule, message, *["(" + ", ".join(map(str, facts)) + ")" for facts in (wanted, found)])


def case(s: Subject) -> None:
    """Checks a `case`, or an `if`: branches take no values, and return the types of the results."""
    s.need(s.operation.regions, "c1", "at least one branch is wanted")
    takes, gives, results = ("c1", "c2", "c3") if s.name == "if" else ("c2", "c3", "c4")
    first = s.returned(0)
    for i in range(len(s.operation.regions)):
        parameters = s.parameters(i)
        s.need(not parameters, takes, "branch {} must take no values, found {}", i, len(parameters))
        _match(s, gives, "branches must return the same types, found {} and {}", first, s.returned(i))
    _match(s, results, "results must have the types that branches return, {}, found {}", first, s.results)


if_ = case


def while_(s: Subject) -> None:
    """Checks that operands, arguments of both regions, results of the body and results of the loop have the
    same types, and that `cond` returns i1.
    """
    _match(s, "c1", "cond must take {}, found {}", s.operands, s.parameters(0))
    _match(s, "c2", "body must take {}, found {}", s.operands, s.parameters(1))
    _match(s, "c2", "body must return {}, found {}", s.operands, s.returned(1))
    s.returns_boolean(0, "c1", "cond")
    _match(s, "c3", "results must be {}, found {}", s.operands, s.results)


def tuple_(s: Subject) -> None:
    """Checks that the elements of the result have the types of the operands."""
    s.types_are("c1", "elements", s.operands, s.result.type.elements)


def get_tuple_element(s: Subject) -> None:
    """Checks that the index is within the tuple, and that the result has the type of that element."""
    held, at = s.operand.type.elements, s.known("index")
    s.need(at < len(held), "c1", "the index must be below {}, found {}", len(held), at)
    fit = types_fit(s.types.of(held[at]), s.result)
    s.need(fit, "c2", "the result must be element {} of {}, found {}", at, s.operand, s.result)


def composite(s: Subject) -> None:
    """Checks that the name has a namespace, and that the decomposition has the operation's operand and result
    types.
    """
    name = s.attribute("name")
    s.need(_NAMESPACED.fullmatch(name), "c1", "the name must have a namespace, found {!r}", name)
    _calls(s, "c2", "c3", "c4", s.attribute("decomposition"))


def call(s: Subject) -> None:
    """Checks that the function has the operation's operand and result types."""
    _calls(s, "", "operands", "results", s.attribute("callee"))


def _calls(s: Subject, there: str, operands: str, results: str, symbol: Any) -> None:
    """Checks that the function `symbol` exists and has the operand and result types of the operation.
    `there`, `operands` and `results` are the labels of these three rules.
    """
    name = symbol.root if isinstance(symbol, mlir.SymbolRef) else ""
    function = s.symbols.get(name)
    if function is None or function.name != "func.func":
        s.fail(there, "there is no function @{}", name)
    signature = function.attributes.get("function_type")
    if isinstance(signature, mlir.FunctionType):
        s.types_are(operands, "operands", s.operands, signature.inputs)
        s.types_are(results, "results", s.results, signature.results)


# ---- Custom calls


def custom_call(s: Subject) -> None:
    """Checks that layouts, aliases and the form of `backend_config` fit operands, results and API version."""
    version = s.known("api_version")
    _layouts(s)
    aliases = [_alias(s, alias.fields) for alias in s.attribute("output_operand_aliases", ())]
    config = s.attribute("backend_config")
    wanted, text = (dict, "dictionary") if version == 4 else (str, "string")
    fit = config is None or isinstance(config, wanted)
    s.need(fit, "i4", "backend_config for api_version {} must be a {}", version, text)
    known = _KNOWN.get(s.attribute("call_target_name"))
    if known is not None:
        _known_buffers(s, *known)
    else:
        _aliased_buffers(s, aliases)


def _layouts(s: Subject) -> None:
    of_operands, of_results = s.attribute("operand_layouts"), s.attribute("result_layouts")
    both = (of_operands is None) == (of_results is None)
    s.need(both, "layouts", "there must be layouts for operands and results, or for none")
    results = s.results
    if len(results) == 1 and isinstance(results[0].type, mlir.TupleType):
        results = [s.types.of(kind) for kind in results[0].type.elements]
    for what, types, layouts in (("operands", s.operands, of_operands), ("results", results, of_results)):
        if layouts is None:
            return
        message = "as many layouts as {} are wanted, {}, found {}"
        s.need(len(types) == len(layouts), "layouts", message, what, len(types), len(layouts))
        for facts, layout in zip(types, layouts, strict=True):
            is_tuple = isinstance(facts.type, mlir.TupleType)
            s.need(not is_tuple, "layouts", "a tuple has no layout, found one for {}", facts)
            if facts.element is not None and facts.shape is None:
                continue
            message = "a layout must be a permutation of {} dimensions for {}, found {}"
            fit = sizes_of(layout) == (facts.rank,) and sorted(table(layout)) == list(range(facts.rank))
            s.need(fit, "layouts", message, facts.rank, facts, table(layout).flat[:16].tolist())


def _alias(s: Subject, fields: dict[str, Any]) -> tuple[LeafPath, LeafPath, mlir.Type]:
    """Checks an alias; returns its position in the operands, its position in the results, and the common
    type.
    """
    at = fields["operand_index"]
    s.need(0 <= at < len(s.operands), "i9", "operand_index must be in [0, {}), found {}", len(s.operands), at)
    results = [facts.type for facts in s.results]
    outputs = results[0] if len(results) == 1 else mlir.TupleType(tuple(results))
    operand = _part(s, fields, "operand_tuple_indices", s.operands[at].type)
    output = _part(s, fields, "output_tuple_indices", outputs)
    s.need(operand == output, "i9", "aliased values must have one type, found {} and {}", operand, output)
    return (at, *fields["operand_tuple_indices"]), fields["output_tuple_indices"], operand


def _part(s: Subject, fields: dict[str, Any], name: str, kind: Any) -> mlir.Type:
    for at in fields[name]:
        inside = isinstance(kind, mlir.TupleType) and 0 <= at < len(kind.elements)
        s.need(inside, "i9", "{} {} of {} is out of bounds", name, fields[name], kind)
        kind = kind.elements[at]
    return kind


# Custom calls that make buffers or read them: the number of operands, the kinds of operand and result.
_KNOWN = {
    "CreateBuffer": (0, mlir.TensorType, mlir.MemRefType),
    "Pin": (1, mlir.TensorType, mlir.MemRefType),
    "Unpin": (1, mlir.MemRefType, mlir.TensorType),
}


def _known_buffers(s: Subject, count: int, source: type[mlir.Type], target: type[mlir.Type]) -> None:
    counts = len(s.operands), len(s.results)
    s.need(counts == (count, 1), "buffers", "{} operands, 1 result wanted, found {} and {}", count, *counts)
    fit = isinstance(s.result.type, target) and all(isinstance(facts.type, source) for facts in s.operands)
    s.need(fit, "buffers", "a tensor must become a buffer, or a buffer a tensor, found {}", s.result)
    for facts in s.operands:
        same = sizes_fit(facts.shape, s.result.shape) and facts.element == s.result.element
        s.need(same, "buffers", "shapes and elements must be equal, found {} and {}", facts, s.result)


def _aliased_buffers(s: Subject, aliases: list[tuple[LeafPath, LeafPath, mlir.Type]]) -> None:
    """Checks that buffers in the results are aliases of operands, each exactly once."""
    sources: set[LeafPath] = set()
    targets: set[LeafPath] = set()
    for source, target, kind in aliases:
        if isinstance(kind, mlir.MemRefType):
            once = target not in targets and source not in sources
            s.need(once, "buffers", "a buffer must be aliased once, found operand {} again", source[0])
            sources.add(source)
            targets.add(target)
    whole = len(s.results) == 1
    stack: list[Any] = [(facts.type, () if whole else (i,)) for i, facts in enumerate(s.results)]
    while stack:
        kind, path = stack.pop()
        if isinstance(kind, mlir.TupleType):
            stack.extend((part, (*path, i)) for i, part in enumerate(kind.elements))
        elif isinstance(kind, mlir.MemRefType):
            s.need(path in targets, "buffers", "the buffer at {} must be an alias of an operand", path)


# ---- Asynchronous operations


def async_start(s: Subject) -> None:
    """Checks that the region has one collective or slice, and that the result is a future of what it
    returns.
    """
    operations = s.block(0).operations
    s.need(len(operations) == 2, "c1", "one operation and a return are wanted, found {}", len(operations))
    dialect, _, inner = operations[0].name.partition(".")
    fit = dialect == "stablehlo" and inner in _IN_ASYNC
    s.need(fit, "c2", "a collective or a slice is wanted, found {}", operations[0].name)
    s.types_are("c3", "operands", s.operands, [facts.type for facts in s.parameters(0)])
    returned = s.returned(0)
    s.need(len(returned) == 1, "c4", "one value must be returned, found {}", len(returned))
    _is_future(s, "c4", s.result, returned[0])


def async_done(s: Subject) -> None:
    """Checks that the operand is a future of the results."""
    _is_future(s, "c1", s.operand, s.result)


def _is_future(s: Subject, rule: str, future: Facts, value: Facts) -> None:
    """Checks that `future` is a future of a single value of the type of `value`."""
    held = future.type.types
    fit = len(held) == 1 and types_fit(s.types.of(held[0]), value)
    s.need(fit, rule, "a future of {} is wanted, found {} (result {})", value, future, s.result)
