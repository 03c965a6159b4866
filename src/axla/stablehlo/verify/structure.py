"""A whole program: modules and their symbols, functions, calls, and every operation in turn.

Verified are
- symbols: a name stands once in a module; calls, compositions and meshes name what is there
- functions: arguments, what is returned and the signature agree; a block ends with a return
- calls: operands and results are those of the function
- types: bounds and quantization, wherever they stand
- operations of StableHLO, CHLO, check and interpreter: their declaration, then their constraints. Operations
  of other dialects are carried along and not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from axla.core.errors import VerifyError
from axla.foreign.records import Record
from axla.stablehlo import mlir
from axla.stablehlo.operations import OPERATIONS
from axla.stablehlo.verify import collectives, control, elementwise, movement, numeric, reducers
from axla.stablehlo.verify.agreement import check_declared
from axla.stablehlo.verify.kinds import Broken
from axla.stablehlo.verify.subject import Subject, Symbols, Types

CONSTRAINTS: dict[str, Callable[[Subject], None]] = {
    **elementwise.RULES, **movement.RULES, **reducers.RULES, **control.RULES, **numeric.RULES,
    **collectives.RULES,
}  # fmt: skip
"""Names without the dialect; what StableHLO and CHLO share means the same in both."""

_ISOLATED = frozenset({"stablehlo.async_start", "chlo.scan"})
_TERMINATORS = frozenset({"func.return", "stablehlo.return"})
_KNOWN = ("stablehlo.", "chlo.", "check.", "interpreter.")

_ENTRIES: dict[str, tuple[Record, Callable[[Subject], None] | None]] = {
    name: (record, CONSTRAINTS.get(record.short) if name.startswith(("stablehlo.", "chlo.")) else None)
    for name, record in OPERATIONS.items()
    if record.known
}


def check_operation(subject: Subject) -> None:
    """What is declared of an operation, then its constraints; Broken for a rule that it breaks."""
    declaration, rule = _ENTRIES[subject.operation.name]
    check_declared(subject, declaration)
    if rule is not None:
        rule(subject)


class Program:
    """Goes through a program, depth first and without recursion."""

    def __init__(self, source: mlir.Source):
        self.source = source
        self.types = Types()

    def run(self) -> None:
        # Blocks left to do: what comes of each, and the symbols around.
        stack: list[tuple[Iterator[mlir.Operation], Symbols]] = [(iter([self.source.module]), {})]
        while stack:
            operations, symbols = stack[-1]
            operation = next(operations, None)
            if operation is None:
                stack.pop()
                continue
            try:
                inner = self._symbols(operation) if operation.name == "builtin.module" else symbols
                self._check(operation, symbols)
                for region in reversed(operation.regions):
                    for block in reversed(region.blocks):
                        self._block(operation, block)
                        stack.append((iter(block.operations), inner))
            except Broken as error:
                raise VerifyError(f"{place(operation)}: {operation.name}: {error}") from None
            except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
                # Within an attribute of the right kind an artifact may hold anything.
                raise VerifyError(f"{place(operation)}: {operation.name}: malformed: {error!r}") from None

    def _symbols(self, module: mlir.Operation) -> Symbols:
        found: Symbols = {}
        if any(len(region.blocks) > 1 for region in module.regions):
            raise Broken("module", "a module is one block")
        blocks = [block for region in module.regions for block in region.blocks]
        for operation in [operation for block in blocks for operation in block.operations]:
            name = operation.attributes.get("sym_name")
            if isinstance(name, str):
                if name in found:
                    raise Broken("symbols", f"@{name} is defined twice, again at {place(operation)}")
                found[name] = operation
        return found

    def _block(self, operation: mlir.Operation, block: mlir.Block) -> None:
        of = self.types.of
        for argument in block.arguments:
            of(argument.type)
        last = len(block.operations) - 1
        for number, inner in enumerate(block.operations):
            if inner.name in _TERMINATORS:
                if number != last:
                    raise Broken("terminator", f"{inner.name} at {place(inner)} is not the last of its block")
                if inner.name == "func.return" and operation.name != "func.func":
                    raise Broken("terminator", f"func.return at {place(inner)} ends functions only")

    def _check(self, operation: mlir.Operation, symbols: Symbols) -> None:
        name = operation.name
        if name not in _ENTRIES:
            for value in operation.results:
                self.types.of(value.type)
            if name == "func.func":
                _function(Subject(operation, self.types, symbols))
            elif name == "func.call":
                control.call(Subject(operation, self.types, symbols))
            elif name.startswith(_KNOWN) and not name.startswith(("check.", "interpreter.")):
                raise Broken("unknown_operation", "there is none of this name")
            return
        check_operation(Subject(operation, self.types, symbols))
        if name in _ISOLATED:
            _check_isolated(operation)


def _function(s: Subject) -> None:
    """Entry block, signature and every return agree."""
    s.name = "function"
    signature = s.attribute("function_type")
    if not isinstance(signature, mlir.FunctionType) or not s.attribute("sym_name"):
        s.fail("", "it has a name and a function_type")
    of = s.types.of
    for kind in (*signature.inputs, *signature.results):
        of(kind)
    blocks = s.operation.regions[0].blocks if s.operation.regions else []
    if blocks:
        s.types_are("arguments", "arguments", [of(v.type) for v in blocks[0].arguments], signature.inputs)
    for block in blocks:
        last = block.operations[-1] if block.operations else None
        if last is None or last.name.startswith(("stablehlo.", "chlo.")) and last.name not in _TERMINATORS:
            raise Broken("terminator", "a function ends with func.return")
        if last.name in _TERMINATORS:
            s.types_are("results", "returned values", [of(v.type) for v in last.operands], signature.results)


def _check_isolated(operation: mlir.Operation) -> None:
    """Nothing inside is used from outside."""
    inside: set[mlir.Value] = set()
    used: list[tuple[mlir.Operation, mlir.Value]] = []
    stack = list(operation.regions)
    while stack:
        for block in stack.pop().blocks:
            inside.update(block.arguments)
            for inner in block.operations:
                inside.update(inner.results)
                used.extend((inner, value) for value in inner.operands)
                stack.extend(inner.regions)
    for inner, value in used:
        if value not in inside:
            raise Broken(
                "isolated", f"{inner.name} at {place(inner)} uses a value from outside of the region"
            )


def place(operation: mlir.Operation) -> str:
    """Line and column, of the source or of what it was made from."""
    line, column = operation.position
    location = operation.location
    for _ in range(64):
        if line or location is None:
            break
        if isinstance(location, mlir.FileLocation):
            return f"{location.file}:{location.line}:{location.column}"
        if isinstance(location, mlir.NameLocation):
            location = location.child
        elif isinstance(location, mlir.CallSiteLocation):
            location = location.callee
        else:
            location = location.parts[0] if location.parts else None
    return f"{line}:{column}"
