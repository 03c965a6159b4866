"""Reads operations: in the short forms of their records, which are interpreted, and in generic form.

A form is compiled once into steps, which are functions of the parser and a `Draft` of the operation. Parts
that a form cannot describe are functions here, which forms call by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from axla.core.tables import by_name
from axla.stablehlo import mlir
from axla.stablehlo.attributes import ENUMERATIONS, STRUCTURES
from axla.stablehlo.building import I1, I32, I64, matrix, number, numbers
from axla.stablehlo.operations import OPERATIONS
from axla.stablehlo.text.draft import PIECES, TYPES, Draft, ReadStep, operand
from axla.stablehlo.text.operations import NamedArgument, Operations, Use

SHORT_NAMES = {"module": "builtin.module", "call": "func.call", "return": "func.return", "func": "func.func"}
"""Operations that may be written without their dialect."""
ISOLATED = frozenset({"builtin.module", "func.func"})
"""Operations whose regions cannot use outer values."""
GENERIC = "(%*) <successors> (? < {!} > ?) (? <regions> ?) {} : @function"
"""The form of an operation in generic form, after its name in quotes."""
DOT = """
(? batching_dims = lhs_batching_dimensions:sizes x rhs_batching_dimensions:sizes , ?)
contracting_dims = lhs_contracting_dimensions:sizes x rhs_contracting_dimensions:sizes
"""
"""The short form of dimension numbers of a dot."""
COMMUTATIVE = frozenset(
    f"stablehlo.{name}" for name in ("add", "and", "maximum", "minimum", "multiply", "or", "xor")
)
"""Operations that may follow `applies` in a reduce."""


def operation_at(parser: Operations) -> mlir.Operation:
    """Reads the operation at the cursor, in generic or short form, without its location."""
    at = parser.start
    if parser.kind == "string":
        name = parser.string()
        steps = _compiled(GENERIC)
    else:
        name = parser.word("an operation")
        name = SHORT_NAMES.get(name, name)
        record = OPERATIONS.get(name)
        if record is None and "." not in name:
            parser.fail(f"expected an operation, found {name!r}", at)
        if record is None or not record.form:
            parser.fail(f'{name} is unknown or has no short form, only "{name}"(...)', at)
        steps = _compiled(record.form)
    draft = Draft(name, at)
    for step in steps:
        step(parser, draft)
    if name == "builtin.module":
        for region in draft.regions:
            region.blocks = region.blocks or [mlir.Block()]
    operands = parser.resolve(draft.uses, draft.types, at)
    return mlir.Operation(
        name, operands, draft.results, draft.attributes, draft.regions, draft.location, parser.position(at)
    )


# ---- Forms


@cache
def _compiled(form: str) -> list[ReadStep]:
    return _steps(form.split())


def _steps(pieces: list[str]) -> list[ReadStep]:
    """Compiles the pieces of a form up to the end of an alternative, and removes them from the list."""
    steps: list[ReadStep] = []
    while pieces and pieces[0] not in ("|", "?)"):
        piece = pieces.pop(0)
        steps.append(_optional(pieces) if piece == "(?" else _step(piece))
    return steps


def _step(piece: str) -> ReadStep:
    if piece in PIECES:
        return PIECES[piece]
    if piece.startswith("@"):
        return TYPES[piece[1:]]
    if re.fullmatch(r"<\w+>", piece):
        return PARTS[piece[1:-1]]
    if re.fullmatch(r"\w+:[\w.<]+", piece):
        return _attribute(*piece.split(":"))
    return _literal(piece)


def _literal(token: str) -> ReadStep:
    def run(parser: Operations, draft: Draft) -> None:
        if parser.token != token:
            parser.fail(f"expected {token!r}, found {parser.saw()}")
        parser.advance()

    return run


def _optional(pieces: list[str]) -> ReadStep:
    """Compiles the alternative `(? ... | ... ?)`, after its opening mark. The first token of the text decides
    between the two sides.
    """
    first = "(" if pieces[0].startswith("<") and len(pieces[0]) > 1 else pieces[0]
    steps, others = _steps(pieces), []
    if pieces.pop(0) == "|":
        others = _steps(pieces)
        pieces.pop(0)

    def run(parser: Operations, draft: Draft) -> None:
        for step in steps if parser.token == first else others:
            step(parser, draft)

    return run


# ---- Attributes


def _elements(parser: Operations) -> Any:
    at, found = parser.start, parser.attribute()
    if not isinstance(found, bool) and not hasattr(found, "type"):
        parser.fail("expected elements with their type", at)
    return found


def _direction(parser: Operations) -> mlir.IntegerAttr:
    at, word = parser.start, parser.word("a direction")
    directions = ("NONE", "FORWARD", "BACKWARD", "BOTH")
    if word not in directions:
        parser.fail(f"{word!r} is not a direction: expected one of {' '.join(directions)}", at)
    return number(directions.index(word), I32)


def _precisions(parser: Operations) -> tuple[mlir.EnumAttr, ...]:
    """Reads `[HIGH, HIGH]`."""
    return tuple(parser.listed("[]", lambda: parser.enumerated("precision")))


def _dot(parser: Operations) -> mlir.StructAttr:
    """Reads `batching_dims = [0] x [0], contracting_dims = [1] x [0]`."""
    draft = Draft("", parser.start, dict.fromkeys(STRUCTURES["dot"], ()))
    for step in _compiled(DOT):
        step(parser, draft)
    return mlir.StructAttr("dot", draft.attributes)


def _padding(parser: Operations) -> mlir.DenseElements:
    at, pairs = parser.start, parser.listed("[]", parser.integers)
    if any(len(pair) != 2 for pair in pairs):
        parser.fail("expected array with 2 elements for each dimension", at)
    return matrix(pairs, 2)


def _reversal(parser: Operations) -> mlir.DenseArray:

    def one() -> bool:
        return parser.integer() != 0 if parser.kind == "number" else parser.boolean()

    return numbers(parser.listed("[]", one), I1)


ATTRIBUTES: dict[str, Callable[[Operations], Any]] = {
    "i64": partial(Operations.number, kind=I64), "i32": partial(Operations.number, kind=I32),
    "f64": partial(Operations.number, kind=mlir.FloatType("f64")),
    "ui64": partial(Operations.number, kind=mlir.IntegerType(64, "u")),
    "ui32": partial(Operations.number, kind=mlir.IntegerType(32, "u")),
    "bool": Operations.boolean, "string": Operations.string, "symbol": Operations.symbol,
    "reference": lambda parser: mlir.SymbolRef(parser.symbol()), "elements": _elements,
    "list": lambda parser: numbers(parser.integers()), "sizes": Operations.integers, "direction": _direction,
    "precisions": _precisions, "dot": _dot, "convolution": Operations.convolution_dimensions,
    "dot_algorithm": partial(Operations.structure, mnemonic="dot_algorithm"), "padding": _padding,
    "reversal": _reversal,
    **{mnemonic: partial(Operations.enumerated, mnemonic=mnemonic) for mnemonic in ENUMERATIONS},
}  # fmt: skip


def _attribute(name: str, kind: str) -> ReadStep:
    read = _opaque(kind) if kind.startswith("sdy") else ATTRIBUTES[kind]

    def run(parser: Operations, draft: Draft) -> None:
        draft.attributes[name] = read(parser)

    return run


def _opaque(kind: str) -> Callable[[Operations], mlir.OpaqueAttr]:
    """Returns a function that reads an attribute of sdy, which is written without its name and, in lists,
    without brackets.
    """

    def read(parser: Operations) -> mlir.OpaqueAttr:
        if parser.token not in ("<", "[", "{"):
            parser.fail(f"expected {kind}, found {parser.saw()}")
        bare = parser.token != "<"
        text = parser.balanced(parser.start)
        if "<" in kind:
            return mlir.OpaqueAttr(f"{kind}{text}>")
        return mlir.OpaqueAttr(f"{kind}<{text}>" if bare else f"{kind}{text}")

    return read


# ---- Special parts


def _successors(parser: Operations, draft: Draft) -> None:
    if parser.token == "[":
        parser.fail(f"{draft.name} cannot have successors")


def _slice(parser: Operations, draft: Draft) -> None:
    """Reads `[start:limit:stride, ...]`; a stride of 1 may be left out."""

    def one() -> tuple[int, int, int]:
        start = parser.integer()
        parser.expect(":")
        limit = parser.integer()
        return start, limit, parser.integer() if parser.accept(":") else 1

    ranges = parser.listed("[]", one)
    for i, name in enumerate(("start_indices", "limit_indices", "strides")):
        draft.attributes[name] = numbers([part[i] for part in ranges])


def _format(parser: Operations, draft: Draft) -> None:
    """Reads the format of a reduce_precision, such as `e5m10`."""
    at, word = parser.start, parser.word("a format such as e5m10")
    found = re.fullmatch(r"e(\d+)m(\d+)", word)
    if not found:
        parser.fail(f"expected exponent mantissa in format e#m#, saw {word}", at)
    for name, digits in (("exponent_bits", found[1]), ("mantissa_bits", found[2])):
        if len(digits) > 10 or int(digits) >= 1 << 31:
            parser.fail(f"{digits} {name.replace('_', ' ')} are more than 32 bits can count", at)
        draft.attributes[name] = number(int(digits), I32)


_WINDOW = {
    "stride": ("window_strides", "list"), "pad": ("padding", "padding"),
    "lhs_dilate": ("lhs_dilation", "list"), "rhs_dilate": ("rhs_dilation", "list"),
    "reverse": ("window_reversal", "reversal"),
}  # fmt: skip


def _window(parser: Operations, draft: Draft) -> None:
    """Reads `stride = [1, 1], pad = [[0, 0], [1, 1]], ...`."""
    while parser.kind == "bare":
        at, word = parser.start, parser.advance()
        name, kind = _WINDOW.get(word, ("", ""))
        if not name or name in draft.attributes:
            parser.fail(f"unexpected keyword {word}", at)
        parser.expect("=")
        draft.attributes[name] = ATTRIBUTES[kind](parser)
        if not parser.accept(","):
            break


def _carries(parser: Operations, draft: Draft) -> None:
    """Reads the names of the carries of a scan, after its inputs."""
    draft.names = parser.uses()


def _scan(parser: Operations, draft: Draft) -> None:
    """Reads the types of a scan; the last operands and results are the carries."""
    at, carries = parser.start, len(draft.names)
    TYPES["function"](parser, draft)
    if len(draft.results) < carries:
        parser.fail("not enough result types to cover the required carries", at)
    for name, others in (("operand", draft.uses), ("result", draft.results[carries:])):
        draft.attributes[f"{name}SegmentSizes"] = numbers((len(others), carries), I32)
    draft.uses += draft.names


# ---- Regions


def _regions(parser: Operations, draft: Draft) -> None:
    draft.regions = parser.regions(draft.name in ISOLATED)


def _region(parser: Operations, draft: Draft) -> None:
    draft.regions = [parser.region(draft.name in ISOLATED, list(draft.arguments))]


def _body(parser: Operations, draft: Draft) -> None:
    """Reads a region with its arguments, `(%a: type, ...) {...}`."""
    draft.regions = [parser.region(arguments=parser.arguments())]


def _carried(parser: Operations, draft: Draft) -> None:
    """Reads `%x = %0, ...)`: the arguments of a loop's regions, and their initial values."""

    def one() -> Use:
        at, name = parser.start, parser.take("value", "an argument")
        parser.expect("=")
        operand(parser, draft)
        return name, at

    draft.names = parser.until(")", one)


def _loop(parser: Operations, draft: Draft) -> None:
    """Reads a region of a loop, whose arguments are the carried values."""
    names, types = draft.names, draft.types
    if len(types) != len(names):
        parser.fail(f"{len(types)} types for {len(names)} arguments", draft.at)
    pairs = zip(names, types, strict=True)
    arguments: list[NamedArgument] = [(name, at, kind, None) for (name, at), kind in pairs]
    draft.regions.append(parser.region(arguments=arguments))


def _reduced(parser: Operations, draft: Draft) -> None:
    """Reads the inputs and initial values of a reduce, `(%x init: %c), ...`."""
    initial = Draft("", parser.start)
    while parser.accept("("):
        operand(parser, draft)
        parser.expect("init")
        parser.expect(":")
        operand(parser, initial)
        parser.expect(")")
        if not parser.accept(","):
            break
    draft.uses += initial.uses


def _operator(parser: Operations, draft: Draft) -> None:
    """Reads the name of the operation that a reduce applies."""
    at = parser.start
    inner = parser.string() if parser.kind == "string" else parser.word("an operation")
    if inner not in COMMUTATIVE:
        parser.fail("expected the inner-op to be a commutative binary-op from the stablehlo dialect", at)
    draft.names = [(inner, at)]


def _applied(parser: Operations, draft: Draft) -> None:
    """Makes the body of a reduce with `applies`."""
    (inner, at), kind = draft.names[0], draft.types[0] if draft.types else None
    draft.location = where = parser.optional_location()
    if not isinstance(kind, mlir.TensorType):
        parser.fail("a reduce with `applies` needs operands that are tensors", at)
    scalar, place = mlir.TensorType((), kind.element), parser.position(at)
    block = mlir.Block([scalar, scalar], None if where is None else [where, where])
    body = mlir.Operation(inner, list(block.arguments), [scalar], {}, [], where, place)
    end = mlir.Operation("stablehlo.return", list(body.results), [], {}, [], where, place)
    block.operations += [body, end]
    draft.regions = [mlir.Region([block])]


def _reducer(parser: Operations, draft: Draft) -> None:
    """Reads the region of a reduce, `(%a: type, %b: type) ... {...}`: for each operand, the arguments for an
    element and for the accumulated value.
    """
    arguments: list[list[NamedArgument]] = [[], []]
    while parser.accept("("):
        arguments[0].append(parser.argument())
        parser.expect(",")
        arguments[1].append(parser.argument())
        parser.expect(")")
    draft.regions = [parser.region(arguments=arguments[0] + arguments[1])]


# ---- Functions and modules


def _visibility(parser: Operations, draft: Draft) -> None:
    if parser.token in ("public", "private", "nested"):
        draft.attributes["sym_visibility"] = parser.advance()


def _name(parser: Operations, draft: Draft) -> None:
    """Reads `@name`, if there is a name."""
    if parser.kind == "symbol":
        draft.attributes["sym_name"] = parser.symbol()


def _typed(parser: Operations) -> tuple[mlir.Type, dict[str, Any]]:
    """Reads `type {...}`, a type with optional attributes."""
    return parser.type(), parser.dictionary() if parser.token == "{" else {}


def _signature(parser: Operations, draft: Draft) -> None:
    """Reads `(%a: type {...} loc(...), ...) -> (type {...}, ...)`; a declaration may have types without
    names.
    """

    arguments: list[NamedArgument] = []

    def parameter() -> tuple[mlir.Type, dict[str, Any]]:
        at, name = parser.start, parser.token if parser.kind == "value" else ""
        if name:
            parser.advance()
            parser.expect(":")
        found = _typed(parser)
        location = parser.optional_location()
        if name:
            arguments.append((name, at, found[0], location))
        return found

    inputs, results = parser.listed("()", parameter), []
    draft.arguments = arguments
    if parser.accept("->"):
        several = parser.token == "("
        results = parser.listed("()", lambda: _typed(parser)) if several else [(parser.type(), {})]
    of_inputs, of_results = (tuple([kind for kind, _ in given]) for given in (inputs, results))
    draft.attributes["function_type"] = mlir.FunctionType(of_inputs, of_results)
    for name, given in (("arg_attrs", inputs), ("res_attrs", results)):
        if any(own for _, own in given):
            draft.attributes[name] = tuple([own for _, own in given])


def _definition(parser: Operations, draft: Draft) -> None:
    """Reads the body of a function, `{...}`; a function that is only declared has none."""
    if parser.token != "{":
        draft.regions = [mlir.Region()]
        return
    if len(draft.arguments) != len(draft.attributes["function_type"].inputs):
        parser.fail("a function with a body must have names for its arguments", draft.at)
    at = parser.start
    _region(parser, draft)
    if not draft.regions[0].blocks:
        parser.fail("the body of the function is empty", at)


PARTS: dict[str, ReadStep] = by_name(
    "", _successors, _slice, _format, _window, _carries, _scan, _regions, _region, _body, _carried, _loop,
    _reduced, _operator, _applied, _reducer, _visibility, _name, _signature, _definition,
)  # fmt: skip
