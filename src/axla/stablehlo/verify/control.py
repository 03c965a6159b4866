"""Rules of control flow, tuples, calls of foreign code, asynchronous operations."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from axla.stablehlo import mlir
from axla.stablehlo.tables import by_name
from axla.stablehlo.verify.attributes import sizes_of, table
from axla.stablehlo.verify.kinds import Facts, sizes_fit, types_fit
from axla.stablehlo.verify.subject import Subject

_NAMESPACED = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*([.][a-zA-Z0-9_$]+)+")
_IN_ASYNC = frozenset({
    "stablehlo.all_gather", "stablehlo.all_reduce", "stablehlo.all_to_all", "stablehlo.collective_broadcast",
    "stablehlo.collective_permute", "stablehlo.collective_reduce", "stablehlo.dynamic_slice",
    "stablehlo.dynamic_update_slice", "stablehlo.reduce_scatter", "stablehlo.slice",
})  # fmt: skip


def _texts(types: list[Facts]) -> str:
    return "(" + ", ".join(map(str, types)) + ")"


def _fit(a: list[Facts], b: list[Facts]) -> bool:
    return len(a) == len(b) and all(types_fit(x, y) for x, y in zip(a, b, strict=True))


def _branches(s: Subject, labels: tuple[str, str, str]) -> None:
    first = s.returned(0)
    for i in range(len(s.operation.regions)):
        parameters, returned = s.parameters(i), s.returned(i)
        s.need(not parameters, labels[0], "branch {} takes no values, found {}", i, len(parameters))
        message = "branches return the same types, found {} and {}"
        s.need(_fit(first, returned), labels[1], message, _texts(first), _texts(returned))
    message = "results are what branches return, {}, found {}"
    s.need(_fit(first, s.results), labels[2], message, _texts(first), _texts(s.results))


def if_(s: Subject) -> None:
    s.need(s.operands[0].shape == (), "i1", "the predicate is a scalar, found {}", s.operands[0])
    _branches(s, ("c1", "c2", "c3"))


def case(s: Subject) -> None:
    index = s.operands[0]
    fit = index.shape == () and index.element == mlir.IntegerType(32)
    s.need(fit, "i1", "the index is tensor<i32>, found {}", index)
    s.need(s.operation.regions, "c1", "at least one branch")
    _branches(s, ("c2", "c3", "c4"))


def while_(s: Subject) -> None:
    wanted = _texts(s.operands)
    condition, body, after = s.parameters(0), s.parameters(1), s.returned(1)
    s.need(_fit(s.operands, condition), "c1", "cond takes {}, found {}", wanted, _texts(condition))
    s.need(_fit(s.operands, body), "c2", "body takes {}, found {}", wanted, _texts(body))
    s.need(_fit(s.operands, after), "c2", "body returns {}, found {}", wanted, _texts(after))
    s.returns_boolean(0, "c1", "cond")
    s.need(_fit(s.operands, s.results), "c3", "results are {}, found {}", wanted, _texts(s.results))


def tuple_(s: Subject) -> None:
    found: Any = s.results[0].type
    held = tuple([facts.type for facts in s.operands])
    s.need(found.elements == held, "c1", "a tuple of {}, found {}", _texts(s.operands), s.results[0])


def get_tuple_element(s: Subject) -> None:
    held: Any = s.operands[0].type
    at = s.integer("index")
    s.in_range("c1", "index", (at,), len(held.elements))
    fit = types_fit(s.types.of(held.elements[at]), s.results[0])
    s.need(fit, "c2", "element {} of {}, found {}", at, s.operands[0], s.results[0])


def composite(s: Subject) -> None:
    name = s.attribute("name")
    s.need(_NAMESPACED.fullmatch(name), "c1", "a name with a namespace, found {!r}", name)
    callee = s.attribute("decomposition").root
    function = s.symbols.get(callee)
    is_function = function is not None and function.name == "func.func"
    s.need(is_function, "c2", "there is no function @{}", callee)
    signature = function.attributes.get("function_type") if function is not None else None
    if isinstance(signature, mlir.FunctionType):
        types_are(s, "c3", "operands", s.operands, signature.inputs)
        types_are(s, "c4", "results", s.results, signature.results)


def types_are(s: Subject, rule: str, what: str, found: list[Facts], wanted: tuple[mlir.Type, ...]) -> None:
    """Exactly these types, one by one."""
    s.need(len(found) == len(wanted), rule, "{} {}, found {}", len(wanted), what, len(found))
    for facts, kind in zip(found, wanted, strict=True):
        s.need(facts.type is kind or facts.type == kind, rule, "{} of type {}, found {}", what, kind, facts)


# ---- Custom calls


def custom_call(s: Subject) -> None:
    version = s.integer("api_version", 1)
    s.need(0 <= version <= 4, "i5", "an api_version from 0 to 4, found {}", version)
    _layouts(s)
    for alias in s.attribute("output_operand_aliases", ()):
        _alias(s, alias.fields)
    config = s.attribute("backend_config")
    if config is not None:
        wanted, text = (dict, "dictionary") if version == 4 else (str, "string")
        message = "backend_config for api_version {} is a {}"
        s.need(isinstance(config, wanted), "i4", message, version, text)
    _buffers(s)


def _layouts(s: Subject) -> None:
    of_operands, of_results = s.attribute("operand_layouts"), s.attribute("result_layouts")
    if of_operands is None and of_results is None:
        return
    if of_operands is None or of_results is None:
        s.fail("layouts", "there are layouts for operands and results or for none")
    results = s.results
    if len(results) == 1 and isinstance(results[0].type, mlir.TupleType):
        results = [s.types.of(kind) for kind in results[0].type.elements]
    for what, types, layouts in (("operands", s.operands, of_operands), ("results", results, of_results)):
        message = "as many layouts as {}, {}, found {}"
        s.need(len(types) == len(layouts), "layouts", message, what, len(types), len(layouts))
        for facts, layout in zip(types, layouts, strict=True):
            is_tuple = isinstance(facts.type, mlir.TupleType)
            s.need(not is_tuple, "layouts", "a tuple has no layout, found one for {}", facts)
            if facts.element is not None and facts.shape is None:
                continue
            message = "a permutation of {} dimensions for {}, found {}"
            fit = sizes_of(layout) == (facts.rank,) and sorted(table(layout)) == list(range(facts.rank))
            s.need(fit, "layouts", message, facts.rank, facts, table(layout).flat[:16].tolist())


def _alias(s: Subject, fields: dict[str, Any]) -> None:
    at = fields["operand_index"]
    s.in_range("i9", "operand_index", (at,), len(s.operands))
    results = s.results
    outputs = results[0].type if len(results) == 1 else mlir.TupleType(tuple([r.type for r in results]))
    operand = _part(s, "operand_tuple_indices", s.operands[at].type, fields["operand_tuple_indices"])
    output = _part(s, "output_tuple_indices", outputs, fields["output_tuple_indices"])
    s.need(operand == output, "i9", "aliased are values of one type, found {} and {}", operand, output)


def _part(s: Subject, name: str, kind: mlir.Type, indices: tuple[int, ...]) -> mlir.Type:
    for at in indices:
        inside = isinstance(kind, mlir.TupleType) and 0 <= at < len(kind.elements)
        s.need(inside, "i9", "{} {} of {} is out of bounds", name, indices, kind)
        kind = kind.elements[at]  # type: ignore[union-attr]
    return kind


# Calls that make buffers and read them: how many operands and results, the kinds of both.
_KNOWN = {
    "CreateBuffer": (0, 1, None, mlir.MemRefType),
    "Pin": (1, 1, mlir.TensorType, mlir.MemRefType),
    "Unpin": (1, 1, mlir.MemRefType, mlir.TensorType),
}


def _buffers(s: Subject) -> None:
    """Buffers come from known calls, or are aliases of operands, each once."""
    known = _KNOWN.get(s.attribute("call_target_name"))
    if known is not None:
        operands, results, source, target = known
        counts = (len(s.operands), len(s.results)) == (operands, results)
        s.need(counts, "buffers", "{} operands and {} results", operands, results)
        fit = isinstance(s.results[0].type, target) and (
            source is None or isinstance(s.operands[0].type, source)
        )
        s.need(fit, "buffers", "a tensor becomes a buffer or a buffer a tensor, found {}", s.results[0])
        if operands:
            a, b = s.operands[0], s.results[0]
            same = sizes_fit(a.shape, b.shape) and a.element == b.element
            s.need(same, "buffers", "of the same shape and elements, found {} and {}", a, b)
        return
    held = {alias.fields["output_tuple_indices"]: 0 for alias in s.attribute("output_operand_aliases", ())}
    sources: set[tuple[int, tuple[int, ...]]] = set()
    for alias in s.attribute("output_operand_aliases", ()):
        fields = alias.fields
        source = (fields["operand_index"], fields["operand_tuple_indices"])
        kind = _part(s, "operand_tuple_indices", s.operands[source[0]].type, source[1])
        if isinstance(kind, mlir.MemRefType):
            held[fields["output_tuple_indices"]] += 1
            once = held[fields["output_tuple_indices"]] == 1 and source not in sources
            s.need(once, "buffers", "a buffer is aliased once, found operand {} again", source[0])
            sources.add(source)
    whole = len(s.results) == 1
    stack: list[tuple[mlir.Type, tuple[int, ...]]] = [
        (r.type, () if whole else (i,)) for i, r in enumerate(s.results)
    ]
    while stack:
        kind, path = stack.pop()
        if isinstance(kind, mlir.TupleType):
            stack.extend((part, (*path, i)) for i, part in enumerate(kind.elements))
        elif isinstance(kind, mlir.MemRefType):
            s.need(held.get(path), "buffers", "the buffer at {} is an alias of an operand", path)


# ---- Asynchronous operations


def async_start(s: Subject) -> None:
    operations = s.block(0).operations
    s.need(len(operations) == 2, "c1", "one operation and a return, found {} operations", len(operations))
    inner = operations[0].name
    s.need(inner in _IN_ASYNC, "c2", "a collective or a slice, found {}", inner)
    types_are(s, "c3", "operands", s.operands, tuple([facts.type for facts in s.parameters(0)]))
    returned = s.returned(0)
    s.need(len(returned) == 1, "c4", "one value returned, found {}", len(returned))
    _is_future(s, s.results[0], returned[0], s.results[0])


def async_done(s: Subject) -> None:
    held: Any = s.operands[0].type
    s.need(len(held.types) == 1, "c1", "a future of one value, found {}", s.operands[0])
    _is_future(s, s.operands[0], s.results[0], s.results[0])


def _is_future(s: Subject, future: Facts, value: Facts, shown: Facts) -> None:
    """The future is that of the value."""
    held: Any = future.type
    rule = "c4" if s.name == "async_start" else "c1"
    fit = len(held.types) == 1 and types_fit(s.types.of(held.types[0]), value)
    s.need(fit, rule, "a future of {}, found {} (result {})", value, future, shown)


RULES: dict[str, Callable[[Subject], None]] = by_name(
    "", if_, case, while_, tuple_, get_tuple_element, composite, custom_call, async_start, async_done,
)  # fmt: skip
