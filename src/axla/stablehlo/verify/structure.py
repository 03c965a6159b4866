"""Verifies a whole program: modules and their symbols, functions, calls, and every operation in turn.

- symbols: names are unique in a module; calls, composites and meshes refer to existing names
- functions: arguments, returned values and signature agree; a block ends with a return
- calls: operands and results are those of the function
- types: bounds and quantization, wherever types occur
- operations of StableHLO, CHLO, check and interpreter: their declaration, then their constraints

Operations of other dialects are not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from axla.core.errors import VerifyError
from axla.stablehlo import mlir
from axla.stablehlo.operations import OPERATIONS
from axla.stablehlo.verify import collectives, control, elements, numeric, reducers
from axla.stablehlo.verify.agreement import check_declared
from axla.stablehlo.verify.kinds import Broken, require
from axla.stablehlo.verify.subject import Subject, SymbolTable, TypeFacts

_DIALECTS = ("stablehlo.", "chlo.")
NAMED = {
    name.rstrip("_"): function
    for module in (collectives, control, elements, numeric, reducers)
    for name, function in vars(module).items()
    if getattr(function, "__module__", "") == module.__name__ and name[0] != "_"
}
CONSTRAINTS: dict[str, Callable[[Subject], None]] = {
    name: function
    for name, record in OPERATIONS.items()
    if (function := NAMED.get("broadcasting" if name.startswith("chlo.broadcast_") else record.short))
    and record.known
}
"""The function with the constraints of each operation, which has the operation's name without the dialect:
names that StableHLO and CHLO share have the same meaning in both.
"""

_ISOLATED = frozenset({"stablehlo.async_start", "chlo.scan"})
_TERMINATORS = frozenset({"func.return", "stablehlo.return"})


def check_operation(subject: Subject) -> None:
    """Checks an operation against its record, then its constraints; raises Broken for a violation."""
    name = subject.operation.name
    check_declared(subject, OPERATIONS[name])
    if name in CONSTRAINTS:
        CONSTRAINTS[name](subject)


class ProgramVerifier:
    """Verifies a program; walks it depth first and without recursion."""

    def __init__(self, source: mlir.Source):
        self.source = source
        self.types = TypeFacts()
        self.checked: set[object] = set()

    def run(self) -> None:
        """Checks all operations. Raises VerifyError with the first one that breaks a rule, and its
        position.
        """
        # The open blocks, each with the operations that are left, and the symbols of the enclosing module.
        stack: list[tuple[Iterator[mlir.Operation], SymbolTable]] = [(iter([self.source.module]), {})]
        while stack:
            operations, symbols = stack[-1]
            operation = next(operations, None)
            if operation is None:
                stack.pop()
                continue
            try:
                inner = self._symbols(operation) if operation.name == "builtin.module" else symbols
                self._check(operation, symbols)
                for block in reversed(operation.blocks if operation.regions else ()):
                    self._block(operation, block)
                    stack.append((iter(block.operations), inner))
            except Broken as error:
                raise VerifyError(f"{place(operation)}: {operation.name}: {error}") from None
            except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
                # An attribute of the right kind can still have any contents in an artifact.
                raise VerifyError(f"{place(operation)}: {operation.name}: malformed: {error!r}") from None

    def _symbols(self, module: mlir.Operation) -> SymbolTable:
        found: SymbolTable = {}
        require(len(module.blocks) <= 1, "module", "a module must be one block")
        for operation in [operation for block in module.blocks for operation in block.operations]:
            name = operation.attributes.get("sym_name")
            if isinstance(name, str):
                text = f"@{name} is defined twice, again at {place(operation)}"
                require(name not in found, "symbols", text)
                found[name] = operation
        return found

    def _block(self, operation: mlir.Operation, block: mlir.Block) -> None:
        self.types.each(block.arguments)
        for inner in block.operations:
            if inner.name in _TERMINATORS:
                what, last = f"{inner.name} at {place(inner)}", inner is block.terminator
                require(last, "terminator", f"{what} must be the last of its block")
                fit = inner.name != "func.return" or operation.name == "func.func"
                require(fit, "terminator", f"{what} can end functions only")

    def _check(self, operation: mlir.Operation, symbols: SymbolTable) -> None:
        subject = Subject(operation, self.types, symbols)
        record = OPERATIONS.get(operation.name)
        if record is not None and record.known:
            key = subject.key()
            if key not in self.checked:
                check_operation(subject)
                self.checked.add(operation if subject.reads else key)
        elif operation.name in _FUNCTIONS:
            _FUNCTIONS[operation.name](subject)
        else:
            known = operation.name.startswith(_DIALECTS)
            require(not known, "unknown_operation", "there is no operation of this name")
        if operation.name in _ISOLATED:
            _check_isolated(operation)


def _function(s: Subject) -> None:
    """Checks that the entry block, the signature and all returns of a function agree."""
    s.name = "function"
    signature = s.attribute("function_type")
    if not isinstance(signature, mlir.FunctionType) or not s.attribute("sym_name"):
        s.fail("", "it must have a name and a function_type")
    for kind in (*signature.inputs, *signature.results):
        s.types.of(kind)
    blocks = s.operation.blocks
    if blocks:
        s.types_are("arguments", "arguments", s.types.each(blocks[0].arguments), signature.inputs)
    for block in blocks:
        last = block.operations[-1] if block.operations else None
        fit = last is not None and (last.name in _TERMINATORS or not last.name.startswith(_DIALECTS))
        require(fit, "terminator", "a function must end with func.return")
        if last is not None and last.name in _TERMINATORS:
            s.types_are("results", "returned values", s.types.each(last.operands), signature.results)


_FUNCTIONS: dict[str, Callable[[Subject], None]] = {"func.func": _function, "func.call": control.call}


def _check_isolated(operation: mlir.Operation) -> None:
    """Checks that the operations inside use no outer values."""
    inner = [found for found in operation.walk() if found is not operation]
    inside = {value for found in inner for value in found.results}
    blocks = [block for found in (operation, *inner) for block in found.blocks]
    inside.update(value for block in blocks for value in block.arguments)
    for found in inner:
        text = f"{found.name} at {place(found)} uses a value from outside of the region"
        require(inside.issuperset(found.operands), "isolated", text)


def place(operation: mlir.Operation) -> str:
    """The position of an operation for messages, `line:column`. If the operation is from bytecode, the
    position in the file that its location records, `file:line:column`.
    """
    line, column = operation.position
    location = operation.location
    for _ in range(64):
        if line or location is None:
            break
        match location:
            case mlir.FileLocation():
                return f"{location.file}:{location.line}:{location.column}"
            case mlir.NameLocation(_, inner) | mlir.CallSiteLocation(inner, _):
                location = inner
            case mlir.FusedLocation():
                location = location.parts[0] if location.parts else None
    return f"{line}:{column}"
