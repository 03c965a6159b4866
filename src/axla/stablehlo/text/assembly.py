"""Reading short forms: an interpreter of the forms that records have.

A form is compiled once into steps, functions of the parser and a `Draft` of the operation. What a table
cannot say is a function here, known to the forms by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from axla.stablehlo import mlir
from axla.stablehlo.operations import OPERATIONS
from axla.stablehlo.text.operations import Argument, Operations, Use

SHORT_NAMES = {"module": "builtin.module", "call": "func.call", "return": "func.return", "func": "func.func"}
"""Names that may leave out their dialect."""
COMMUTATIVE = frozenset(
    f"stablehlo.{name}" for name in ("add", "and", "maximum", "minimum", "multiply", "or", "xor")
)
"""Operations that may stand after `applies` in a reduce."""

_I64, _I32 = mlir.IntegerType(64), mlir.IntegerType(32)


@dataclass(slots=True)
class Draft:
    """An operation as far as it is read. `types` are those of the operands, `results` of the results."""

    name: str
    at: int
    uses: list[Use] = field(default_factory=list)
    types: list[mlir.Type] = field(default_factory=list)
    results: list[mlir.Type] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    regions: list[mlir.Region] = field(default_factory=list)
    location: mlir.Location | None = None


Step = Callable[[Operations, Draft], None]


def short_form(parser: Operations, position: tuple[int, int]) -> mlir.Operation:
    """The operation in short form at the cursor, but for its location."""
    at, name = parser.start, parser.advance()
    name = SHORT_NAMES.get(name, name)
    steps = _compiled(name)
    if steps is None:
        if "." not in name:
            parser.fail(f"expected an operation, found {name!r}", at)
        parser.fail(f'{name} is unknown or has no short form, only "{name}"(...)', at)
    draft = Draft(name, at)
    for step in steps:
        step(parser, draft)
    operands = parser.resolve(draft.uses, draft.types, at)
    return mlir.Operation(
        name, operands, draft.results, draft.attributes, draft.regions, draft.location, position
    )


@cache
def _compiled(name: str) -> tuple[Step, ...] | None:
    record = OPERATIONS.get(name)
    return tuple(_steps(record.form.split())) if record is not None and record.form else None


def _steps(pieces: list[str]) -> list[Step]:
    steps: list[Step] = []
    while pieces:
        piece = pieces.pop(0)
        if piece == "(?":
            end = pieces.index("?)")
            steps.append(_optional(pieces[0], _steps(pieces[:end])))
            del pieces[: end + 1]
        elif piece in _PIECES:
            steps.append(_PIECES[piece])
        elif re.fullmatch(r"\w+:[\w.<]+", piece):
            steps.append(_attribute(*piece.split(":")))
        elif piece.startswith("@"):
            steps.append(TYPES[piece[1:]])
        elif re.fullmatch(r"<\w+>", piece):
            steps.append(PARTS[piece[1:-1]])
        else:
            steps.append(_literal(piece))
    return steps


def _literal(token: str) -> Step:
    return lambda parser, draft: parser.expect(token)


def _optional(first: str, steps: list[Step]) -> Step:
    first = "(" if first.startswith("<") else first

    def run(parser: Operations, draft: Draft) -> None:
        if parser.token == first:
            for step in steps:
                step(parser, draft)

    return run


def _operand(parser: Operations, draft: Draft) -> None:
    draft.uses.append((parser.token, parser.start))
    parser.take("value", "an operand")


def _operands(parser: Operations, draft: Draft) -> None:
    draft.uses += parser.uses()


def _operands_and_commas(parser: Operations, draft: Draft) -> None:
    while parser.kind == "value":
        _operand(parser, draft)
        parser.expect(",")


def _dictionary(parser: Operations, draft: Draft) -> None:
    if parser.token == "{":
        at = parser.start
        more = parser.dictionary()
        if not draft.attributes.keys().isdisjoint(more):
            parser.fail("an attribute stands twice", at)
        draft.attributes.update(more)


def _keyword_dictionary(parser: Operations, draft: Draft) -> None:
    """`attributes {...}`, or nothing."""
    if parser.accept("attributes"):
        if parser.token != "{":
            parser.fail(f"expected a dictionary of attributes, found {parser.saw()}")
        _dictionary(parser, draft)


_PIECES: dict[str, Step] = {
    "%": _operand, "%*": _operands, "%,": _operands_and_commas, "{}": _dictionary,
}  # fmt: skip

# ---- Attributes


def _number_of(kind: mlir.Type) -> Callable[[Operations], Any]:
    return lambda parser: parser.number(kind)


def _elements(parser: Operations) -> Any:
    at, found = parser.start, parser.attribute()
    if isinstance(found, bool):
        return found
    if not hasattr(found, "type"):
        parser.fail("expected elements with their type", at)
    return found


def _direction(parser: Operations) -> mlir.IntegerAttr:
    at, word = parser.start, parser.word("a direction")
    directions = ("NONE", "FORWARD", "BACKWARD", "BOTH")
    if word not in directions:
        parser.fail(f"{word!r} is no direction: expected one of {' '.join(directions)}", at)
    return mlir.IntegerAttr(directions.index(word), _I32)


ATTRIBUTES: dict[str, Callable[[Operations], Any]] = {
    "i64": _number_of(_I64), "i32": _number_of(_I32), "f64": _number_of(mlir.FloatType("f64")),
    "ui64": _number_of(mlir.IntegerType(64, "u")), "ui32": _number_of(mlir.IntegerType(32, "u")),
    "bool": lambda parser: parser.boolean(), "string": lambda parser: parser.string(),
    "symbol": lambda parser: parser.symbol(),
    "reference": lambda parser: mlir.SymbolRef(parser.symbol()), "elements": _elements,
    "list": lambda parser: mlir.DenseArray(_I64, parser.integers()), "direction": _direction,
}  # fmt: skip


def _attribute(name: str, kind: str) -> Step:
    if kind.startswith("enum"):
        mnemonic = kind[5:] or name
        read: Callable[[Operations], Any] = lambda parser: parser.enumerated(mnemonic)  # noqa: E731
    elif kind.startswith("sdy"):
        read = _opaque(kind)
    else:
        read = ATTRIBUTES[kind]

    def run(parser: Operations, draft: Draft) -> None:
        draft.attributes[name] = read(parser)

    return run


def _opaque(kind: str) -> Callable[[Operations], mlir.OpaqueAttr]:
    """An attribute of sdy, written without its name and, in lists, without the brackets around."""

    def read(parser: Operations) -> mlir.OpaqueAttr:
        if parser.token not in ("<", "[", "{"):
            parser.fail(f"expected {kind}, found {parser.saw()}")
        bare = parser.token != "<"
        text = parser.balanced(parser.start)
        if "<" in kind:
            return mlir.OpaqueAttr(f"{kind}{text}>")
        return mlir.OpaqueAttr(f"{kind}<{text}>" if bare else f"{kind}{text}")

    return read


# ---- Types


def _function(parser: Operations, draft: Draft) -> None:
    """`(operands) -> results`."""
    if parser.token != "(":
        parser.fail(f"expected the types of operands and results, found {parser.saw()}")
    draft.types = parser.type_list()
    parser.expect("->")
    draft.results = parser.results()


def _from_function(parser: Operations, draft: Draft, kind: mlir.FunctionType, at: int) -> None:
    if len(kind.inputs) != len(draft.uses):
        parser.fail(f"{len(draft.uses)} operands present, but expected {len(kind.inputs)}", at)
    if len(kind.results) != 1:
        parser.fail("expected single output", at)
    draft.types, draft.results = list(kind.inputs), list(kind.results)


def _same(parser: Operations, draft: Draft) -> None:
    """One type for operands and result, or all of them as of a function."""
    at, kind = parser.start, parser.type()
    if isinstance(kind, mlir.FunctionType):
        _from_function(parser, draft, kind, at)
    else:
        draft.types, draft.results = [kind] * len(draft.uses), [kind]


def _first(parser: Operations, draft: Draft) -> None:
    """One type for all operands."""
    draft.types = [parser.type()] * len(draft.uses)


def _types(parser: Operations, draft: Draft) -> None:
    draft.types = parser.types()


def _result(parser: Operations, draft: Draft) -> None:
    draft.results = [parser.type()]


def _results(parser: Operations, draft: Draft) -> None:
    draft.results = parser.results()


def _value(parser: Operations, draft: Draft) -> None:
    """The result has the type of the attribute."""
    value = draft.attributes["value"]
    draft.results = [mlir.IntegerType(1) if isinstance(value, bool) else value.type]


def _as_value(parser: Operations, draft: Draft) -> None:
    """The operand has the type of the attribute."""
    _value(parser, draft)
    draft.types, draft.results = draft.results, []


def _select(parser: Operations, draft: Draft) -> None:
    at, kinds = parser.start, parser.types()
    if len(kinds) == 1 and isinstance(kinds[0], mlir.FunctionType):
        _from_function(parser, draft, kinds[0], at)
    elif len(kinds) == 2:
        draft.types, draft.results = [kinds[0], kinds[1], kinds[1]], [kinds[1]]
    else:
        parser.fail("expected functional type or list of two types", at)


def _complex(parser: Operations, draft: Draft) -> None:
    at, kind = parser.start, parser.type()
    if isinstance(kind, mlir.FunctionType):
        _from_function(parser, draft, kind, at)
    elif isinstance(kind, mlir.TensorType) and isinstance(kind.element, mlir.ComplexType):
        part = mlir.TensorType(kind.shape, kind.element.element, kind.encoding)
        draft.types, draft.results = [part, part], [kind]
    else:
        parser.fail("expected tensor with complex element type", at)


def _tuple(parser: Operations, draft: Draft) -> None:
    at, kind = parser.start, parser.type()
    if not isinstance(kind, mlir.TupleType):
        parser.fail("expected tuple type", at)
    draft.types, draft.results = list(kind.elements), [kind]


TYPES: dict[str, Step] = {
    "function": _function, "same": _same, "first": _first, "types": _types, "result": _result,
    "results": _results, "value": _value, "as_value": _as_value, "select": _select, "complex": _complex,
    "tuple": _tuple,
}  # fmt: skip

# ---- Parts of their own


def _list(*values: int) -> mlir.DenseArray:
    return mlir.DenseArray(_I64, values)


def _barrier(parser: Operations, draft: Draft) -> None:
    if parser.accept("("):
        parser.expect(")")
        return
    draft.uses = parser.uses()
    parser.expect(":")
    draft.types = parser.types()
    draft.results = list(draft.types)


def _slice(parser: Operations, draft: Draft) -> None:
    """`[start:limit:stride, ...]`; a stride of 1 is not written."""

    def one() -> tuple[int, int, int]:
        start = parser.integer()
        parser.expect(":")
        limit = parser.integer()
        return start, limit, parser.integer() if parser.accept(":") else 1

    parser.expect("[")
    ranges = parser.until("]", one)
    for i, name in enumerate(("start_indices", "limit_indices", "strides")):
        draft.attributes[name] = _list(*[part[i] for part in ranges])


def _format(parser: Operations, draft: Draft) -> None:
    """`e5m10`."""
    at, word = parser.start, parser.word("a format such as e5m10")
    found = re.fullmatch(r"e(\d+)m(\d+)", word)
    if not found:
        parser.fail(f"expected exponent mantissa in format e#m#, saw {word}", at)
    for name, digits in (("exponent_bits", found[1]), ("mantissa_bits", found[2])):
        if len(digits) > 10 or int(digits) >= 1 << 31:
            parser.fail(f"{digits} {name.replace('_', ' ')} are more than 32 bits can count", at)
        draft.attributes[name] = mlir.IntegerAttr(int(digits), _I32)


def _precision(parser: Operations, draft: Draft) -> None:
    """`precision = [HIGH, HIGH]`, `algorithm = <...>` or both."""
    if parser.token != "algorithm" or draft.name == "stablehlo.dot":
        parser.expect("precision")
        parser.expect("=")
        parser.expect("[")
        found = parser.until("]", lambda: parser.enumerated("precision"))
        draft.attributes["precision_config"] = tuple(found)
        if draft.name == "stablehlo.dot" or not parser.accept(","):
            return
    parser.expect("algorithm")
    parser.expect("=")
    draft.attributes["algorithm"] = parser.structure("dot_algorithm")


def _dot(parser: Operations, draft: Draft) -> None:
    """`batching_dims = [0] x [0], contracting_dims = [1] x [0]`."""
    fields: dict[str, Any] = {"batching": ((), ())}
    for name in ("batching", "contracting"):
        if name == "batching" and parser.token != "batching_dims":
            continue
        parser.expect(f"{name}_dims")
        parser.expect("=")
        left = parser.integers()
        parser.expect("x")
        fields[name] = left, parser.integers()
        if name == "batching":
            parser.expect(",")
    draft.attributes["dot_dimension_numbers"] = mlir.StructAttr("dot", {
        f"{side}_{name}_dimensions": fields[name][i]
        for name in ("batching", "contracting") for i, side in enumerate(("lhs", "rhs"))
    })  # fmt: skip


def _convolution(parser: Operations, draft: Draft) -> None:
    fields = parser.convolution_dimensions()
    draft.attributes["dimension_numbers"] = mlir.StructAttr("conv", fields)


_WINDOW = {
    "stride": "window_strides", "pad": "padding", "lhs_dilate": "lhs_dilation", "rhs_dilate": "rhs_dilation",
    "reverse": "window_reversal",
}  # fmt: skip


def _window(parser: Operations, draft: Draft) -> None:
    """`stride = [1, 1], pad = [[0, 0], [1, 1]], ...`."""
    while parser.kind == "bare":
        at, word = parser.start, parser.advance()
        name = _WINDOW.get(word)
        if name is None or name in draft.attributes:
            parser.fail(f"unexpected keyword {word}", at)
        parser.expect("=")
        if word == "pad":
            draft.attributes[name] = _padding(parser)
        elif word == "reverse":
            draft.attributes[name] = _reversal(parser)
        else:
            draft.attributes[name] = _list(*parser.integers())
        if not parser.accept(","):
            break


def _padding(parser: Operations) -> mlir.DenseElements:
    parser.expect("[")
    at, pairs = parser.start, parser.until("]", parser.integers)
    if any(len(pair) != 2 for pair in pairs):
        parser.fail("expected array with 2 elements for each dimension", at)
    values = np.array(pairs, np.int64).reshape(len(pairs), 2)
    return mlir.DenseElements(mlir.TensorType((len(pairs), 2), _I64), values)


def _reversal(parser: Operations) -> mlir.DenseArray:
    parser.expect("[")
    found = parser.until("]", lambda: parser.integer() != 0 if parser.kind == "number" else parser.boolean())
    return mlir.DenseArray(mlir.IntegerType(1), tuple(found))


def _regions(parser: Operations, draft: Draft) -> None:
    draft.regions = parser.regions()


def _body(parser: Operations, draft: Draft) -> None:
    """`(%a: type, ...) {...}`."""
    draft.regions = [parser.region(arguments=parser.arguments())]


def _constant(parser: Operations, draft: Draft) -> None:
    """`{...} dense<...> : type`, or what follows the name in generic form."""
    if parser.token != "(":
        _dictionary(parser, draft)
        draft.attributes["value"] = _elements(parser)
        _value(parser, draft)
        return
    parser.advance()
    parser.expect(")")
    if parser.accept("<"):
        _dictionary(parser, draft)
        parser.expect(">")
    _dictionary(parser, draft)
    parser.expect(":")
    _function(parser, draft)
    if "value" not in draft.attributes:
        parser.fail("a constant without its attribute 'value'", draft.at)


def _while(parser: Operations, draft: Draft) -> None:
    """`(%x = %0, ...) : types attributes {...} cond {...} do {...}`."""

    def one() -> Use:
        at, name = parser.start, parser.take("value", "an argument")
        parser.expect("=")
        _operand(parser, draft)
        return name, at

    parser.expect("(")
    names = parser.until(")", one)
    if draft.uses:
        parser.expect(":")
        at = parser.start
        _types(parser, draft)
        if len(draft.types) != len(names):
            parser.fail(f"{len(draft.types)} types of {len(names)} arguments", at)
    draft.results = list(draft.types)
    _keyword_dictionary(parser, draft)
    arguments = _arguments(names, draft.types)
    for word in ("cond", "do"):
        parser.expect(word)
        draft.regions.append(parser.region(arguments=list(arguments)))


def _arguments(names: list[Use], types: list[mlir.Type]) -> list[Argument]:
    return [(name, at, kind, None) for (name, at), kind in zip(names, types, strict=True)]


def _reduce(parser: Operations, draft: Draft) -> None:
    """`(%x init: %c), ... applies stablehlo.add across dimensions = [0] : type`, or with a body after it."""
    initial: list[Use] = []
    while parser.accept("("):
        _operand(parser, draft)
        parser.expect("init")
        parser.expect(":")
        initial.append((parser.token, parser.start))
        parser.take("value", "an initial value")
        parser.expect(")")
        if not parser.accept(","):
            break
    draft.uses += initial
    at, inner = parser.start, ""
    if parser.accept("applies"):
        at = parser.start
        inner = parser.string() if parser.kind == "string" else parser.word("an operation")
        if inner not in COMMUTATIVE:
            parser.fail("expected the inner-op to be a commutative binary-op from the stablehlo dialect", at)
    for word in ("across", "dimensions", "="):
        parser.expect(word)
    dimensions = mlir.DenseArray(_I64, parser.integers())
    _dictionary(parser, draft)
    draft.attributes["dimensions"] = dimensions
    parser.expect(":")
    _function(parser, draft)
    if inner:
        draft.location = parser.optional_location()
        draft.regions = [_applied(parser, draft, inner, at)]
        return
    parser.expect("reducer")
    arguments: list[list[Argument]] = [[], []]
    while parser.accept("("):
        arguments[0].append(parser.argument())
        parser.expect(",")
        arguments[1].append(parser.argument())
        parser.expect(")")
    draft.regions = [parser.region(arguments=arguments[0] + arguments[1])]


def _applied(parser: Operations, draft: Draft, inner: str, at: int) -> mlir.Region:
    """The body that a reduce with `applies` has."""
    kind = draft.types[0] if draft.types else None
    if not isinstance(kind, mlir.TensorType):
        parser.fail("a reduce of no tensors applies nothing", at)
    scalar = mlir.TensorType((), kind.element)
    place, where = parser.position(at), draft.location
    block = mlir.Block([scalar, scalar], None if where is None else [where, where])
    body = mlir.Operation(inner, list(block.arguments), [scalar], {}, [], where, place)
    end = mlir.Operation("stablehlo.return", list(body.results), [], {}, [], where, place)
    block.operations += [body, end]
    return mlir.Region([block])


def _scan(parser: Operations, draft: Draft) -> None:
    """`%inputs) inits (%carries) dimension=0 attributes {...} {...} : type`."""
    inputs = parser.uses()
    for token in (")", "inits", "("):
        parser.expect(token)
    carries = parser.uses()
    for token in (")", "dimension", "="):
        parser.expect(token)
    dimension = parser.number(_I64)
    _keyword_dictionary(parser, draft)
    draft.regions = [parser.region()]
    parser.expect(":")
    at = parser.start
    _function(parser, draft)
    if len(draft.results) < len(carries):
        parser.fail("not enough result types to cover the required carries", at)
    outputs = len(draft.results) - len(carries)
    draft.uses = inputs + carries
    draft.attributes |= {
        "dimension": dimension,
        "operandSegmentSizes": mlir.DenseArray(_I32, (len(inputs), len(carries))),
        "resultSegmentSizes": mlir.DenseArray(_I32, (outputs, len(carries))),
    }


# ---- Functions and modules


def _module(parser: Operations, draft: Draft) -> None:
    """`@name attributes {...} {...}`."""
    if parser.token in ("public", "private", "nested"):
        draft.attributes["sym_visibility"] = parser.advance()
    if parser.kind == "symbol":
        draft.attributes["sym_name"] = parser.symbol()
    _keyword_dictionary(parser, draft)
    region = parser.region(isolated=True)
    region.blocks = region.blocks or [mlir.Block()]
    draft.regions = [region]


def _func(parser: Operations, draft: Draft) -> None:
    """`private @name(%a: type {...}) -> (type {...}) attributes {...} {...}`."""
    if parser.token in ("public", "private", "nested"):
        draft.attributes["sym_visibility"] = parser.advance()
    draft.attributes["sym_name"] = parser.symbol()
    inputs, arguments, of_arguments = _parameters(parser)
    results: list[mlir.Type] = []
    of_results: list[dict[str, Any]] = []
    if parser.accept("->"):
        results, of_results = _function_results(parser)
    draft.attributes["function_type"] = mlir.FunctionType(tuple(inputs), tuple(results))
    if any(of_arguments):
        draft.attributes["arg_attrs"] = tuple(of_arguments)
    if any(of_results):
        draft.attributes["res_attrs"] = tuple(of_results)
    _keyword_dictionary(parser, draft)
    if parser.token != "{":
        draft.regions = [mlir.Region()]
        return
    if len(arguments) != len(inputs):
        parser.fail("a function with a body needs names of its arguments", draft.at)
    at = parser.start
    draft.regions = [parser.region(isolated=True, arguments=arguments)]
    if not draft.regions[0].blocks:
        parser.fail("a function whose body is empty", at)


def _attributes_of(parser: Operations) -> dict[str, Any]:
    return parser.dictionary() if parser.token == "{" else {}


def _parameters(parser: Operations) -> tuple[list[mlir.Type], list[Argument], list[dict[str, Any]]]:
    """`(%a: type {...} loc(...), ...)`; a function without body may have types only."""
    types: list[mlir.Type] = []
    arguments: list[Argument] = []
    attributes: list[dict[str, Any]] = []

    def one() -> None:
        at, name, named = parser.start, parser.token, parser.kind == "value"
        if named:
            parser.advance()
            parser.expect(":")
        types.append(parser.type())
        attributes.append(_attributes_of(parser))
        location = parser.optional_location()
        if named:
            arguments.append((name, at, types[-1], location))

    parser.expect("(")
    parser.until(")", one)
    return types, arguments, attributes


def _function_results(parser: Operations) -> tuple[list[mlir.Type], list[dict[str, Any]]]:
    if parser.token != "(":
        return [parser.type()], []
    parser.advance()
    found = parser.until(")", lambda: (parser.type(), _attributes_of(parser)))
    return [kind for kind, _ in found], [attributes for _, attributes in found]


PARTS: dict[str, Step] = {
    "barrier": _barrier, "slice": _slice, "format": _format, "precision": _precision, "dot": _dot,
    "convolution": _convolution, "window": _window, "regions": _regions, "body": _body,
    "constant": _constant, "while": _while, "reduce": _reduce, "scan": _scan, "module": _module,
    "function": _func,
}  # fmt: skip
