"""Self-checking programs: separates `check.*` custom calls and operations from the other operations.

A StableHLO test case calls @inputs and @expected, computes, and checks. `cases` splits it into functions that
return the inputs and the expected values, and a body that takes the inputs as arguments, so that a compiler
cannot constant-fold the whole program. Other programs are not split: both operands of a check become results.
"""

from __future__ import annotations

import re
from dataclasses import field

import numpy as np

from axla.core.dataclass import dataclass
from axla.core.errors import UnsupportedError, VerifyError
from axla.stablehlo import mlir
from axla.stablehlo import reading as read
from axla.stablehlo.importer.program import functions_of

PREFIX = "check."
RETURN = "func.return"
INPUTS, EXPECTED = "inputs", "expected"


@dataclass(frozen=True, slots=True)
class Check:
    """One check of a program; `kind` is eq, almost_eq or close. `actual` is the number of a result of the
    body. `expected` is the number of a result of @expected if `from_function`, else of a result of the body.
    """

    kind: str
    actual: int
    expected: int
    from_function: bool = False
    tolerance: float = 0.0
    max_ulp: int = 0
    min_ulp: int = 0
    place: str = ""
    # The expected value is the one that this probe recorded in its execution number `iteration`.
    probe: str = ""
    iteration: int = 0

    def problem(self, actual: np.ndarray, expected: np.ndarray) -> str:
        """Describes how a value violates the check; "" if it does not."""
        if actual.shape != expected.shape or actual.dtype != expected.dtype:
            return f"found {actual.dtype}{list(actual.shape)}, wanted {expected.dtype}{list(expected.shape)}"
        with np.errstate(all="ignore"):
            if self.kind == "eq":
                wrong = ~np.asarray(actual == expected)
            elif self.kind == "almost_eq":
                wrong = ~nearly(actual, expected, self.tolerance)
            else:
                distance = ulps(actual, expected)
                wrong = (distance > self.max_ulp) | (distance < self.min_ulp)
        if not wrong.any():
            return ""
        at = tuple(map(int, np.argwhere(wrong)[0]))
        text = f"{int(wrong.sum())} of {wrong.size} elements, first at {list(at)}"
        if self.kind == "close":
            text += f", by {int(distance[at])} ULP"
        return f"{text}: found {actual[at]}, wanted {expected[at]}"


@dataclass(slots=True)
class CheckCase:
    """A function with checks, in parts. The function `body` returns the values that `checks` refer to, the
    function `inputs` its arguments, and `expected` the expected values ("" where there is no such function).
    """

    body: str
    checks: list[Check] = field(default_factory=list)
    inputs: str = ""
    expected: str = ""


def cases(source: mlir.Source) -> list[CheckCase]:
    """Splits each function of a source that contains checks into its parts. Changes the source.

    If there is a function `main`, only `main` is split.
    """
    functions = functions_of(source)
    names = ["main"] if "main" in functions else list(functions)
    found = []
    for name in names:
        block = functions[name].body
        if block is not None and any(map(_is_check, block.operations)):
            found.append(_Splitter(name, functions[name], block).case())
    return found


def has_checks(source: mlir.Source) -> bool:
    """Whether a source has operations or custom calls of the `check` dialect."""
    functions = [f for part in source.parts() for f in functions_of(part).values()]
    return any(_is_check(op) for f in functions if (block := f.body) for op in block.operations)


def _is_check(operation: mlir.Operation) -> bool:
    return _kind(operation).startswith(PREFIX)


def _kind(operation: mlir.Operation) -> str:
    if operation.name == "stablehlo.custom_call":
        target = operation.attributes.get("call_target_name")
        return target if isinstance(target, str) else ""
    return operation.name


class _Splitter:
    """Splits a function into a body and its checks."""

    def __init__(self, name: str, function: mlir.Operation, block: mlir.Block) -> None:
        self.case_ = CheckCase(name)
        self.function = function
        self.block = block
        self.results: dict[mlir.Value, int] = {}  # the numbers of the body's results
        self.given: dict[mlir.Value, int] = {}  # the numbers of the results of @expected

    def case(self) -> CheckCase:
        """Turns the function into the body of its case."""
        kept: list[mlir.Operation] = []
        checks: list[mlir.Operation] = []
        for operation in self.block.operations:
            if _is_check(operation):
                checks.append(operation)
            elif operation.name != RETURN and not self._provides(operation):
                kept.append(operation)
        expected = set(self.given)
        if any(not expected.isdisjoint(op.operands) for op in kept):
            raise UnsupportedError(f"function @{self.case_.body} computes with a result of @{EXPECTED}")
        self.case_.checks = [self._check(c) for c in checks]
        values = list(self.results)
        kept.append(mlir.Operation(RETURN, values, ()))
        self.block.operations = kept
        self.function.attributes["function_type"] = mlir.FunctionType(
            tuple(a.type for a in self.block.arguments), tuple(v.type for v in values)
        )
        self.function.attributes.pop("res_attrs", None)
        return self.case_

    def _provides(self, operation: mlir.Operation) -> bool:
        """If the operation calls @inputs or @expected, turns its results into arguments or numbered expected
        values; returns whether it does.
        """
        callee = operation.attributes.get("callee")
        name = callee.root if operation.name == "func.call" and isinstance(callee, mlir.SymbolRef) else ""
        if operation.operands or name not in (INPUTS, EXPECTED):
            return False
        if name == EXPECTED and not self.case_.expected:
            self.case_.expected = name
            self.given = {value: number for number, value in enumerate(operation.results)}
            return True
        if name == INPUTS and not self.case_.inputs and not self.block.arguments:
            self.case_.inputs = name
            for value in operation.results:
                value.owner = self.block
            self.block.arguments = operation.results
            return True
        return False

    def _check(self, operation: mlir.Operation) -> Check:
        kind, settings = _kind(operation).removeprefix(PREFIX), _settings(operation)
        operands = list(operation.operands)
        line, column = operation.position
        place = f"line {line}, column {column}" if line else ""
        if kind == "expect_serialized_eq" and len(operands) == 1:
            value, probe = self._number(operands[0]), read.text(operation, "probe_id")
            iteration = read.integer(operation, "iteration", 0)
            return Check("eq", value, value, place=place, probe=probe, iteration=iteration)
        if kind == "eq":
            operands.reverse()  # check.eq has the expected value first
            integral = not operands or _is_integral(operands[0].type)
            kind, settings = ("expect_eq", {}) if integral else ("expect_almost_eq", {"tolerance": 1e-4})
        if kind.endswith("_const"):
            kind = kind.removesuffix("_const")
            operands.append(self._constant(operation))
        if kind not in _TOLERANCES or len(operands) != 2:
            raise UnsupportedError(f"{_kind(operation)}: there is no such check of {len(operands)} values")
        actual, expected = operands
        tolerance, ulp = _TOLERANCES[kind][operation.name != "stablehlo.custom_call"]
        given = expected in self.given
        return Check(
            kind.removeprefix("expect_"), self._number(actual),
            self.given[expected] if given else self._number(expected), given,
            float(settings.get("tolerance", tolerance)), int(settings.get("max_ulp", ulp)),
            int(settings.get("min_ulp", 0)), place,
        )  # fmt: skip

    def _constant(self, operation: mlir.Operation) -> mlir.Value:
        value = operation.attributes.get("value")
        if not isinstance(value, mlir.DenseElements):
            raise VerifyError(f"a check against a constant needs dense<...>, found {value}")
        made = mlir.Operation("stablehlo.constant", [], (value.type,), {"value": value})
        self.block.operations.insert(0, made)
        return made.results[0]

    def _number(self, value: mlir.Value) -> int:
        """The number of a value among the results of the body, to which it is added if necessary."""
        if value in self.given:
            raise UnsupportedError(f"function @{self.case_.body} checks a result of @{EXPECTED}, not its own")
        return self.results.setdefault(value, len(self.results))


# The default tolerance and ULP distance, of the custom call and of the operation.
_TOLERANCES = {
    "expect_eq": ((0.0, 0), (0.0, 0)),
    "expect_almost_eq": ((1e-3, 0), (1e-4, 0)),
    "expect_close": ((0.0, 3), (0.0, 1)),
}
_SETTING = re.compile(r"(\w+)=([^,\s]+)")


def _settings(operation: mlir.Operation) -> dict[str, float]:
    """Reads the tolerances of a check: attributes of the operation, or `name=number` in the config of a
    custom call.
    """
    config = operation.attributes.get("backend_config", "")
    try:
        found = {m[1]: float(m[2]) for m in _SETTING.finditer(config)} if isinstance(config, str) else {}
    except ValueError:
        raise VerifyError(f"{_kind(operation)}: tolerances must be numbers, found {config}") from None
    for name in ("tolerance", "max_ulp_difference", "min_ulp_difference"):
        value = operation.attributes.get(name)
        if isinstance(value, mlir.IntegerAttr | mlir.FloatAttr):
            found[name.removesuffix("_difference")] = float(value.value)
    return found


def _is_integral(type_: mlir.Type) -> bool:
    return isinstance(getattr(type_, "element", type_), mlir.IntegerType | mlir.IndexType)


# The comparisons.


def nearly(actual: np.ndarray, expected: np.ndarray, tolerance: float) -> np.ndarray:
    """A mask of the elements for which the difference of `actual` and `expected` is at most the tolerance.
    NaN equals NaN; infinities must be equal.
    """
    if actual.dtype.kind == "c":
        parts = [nearly(part(actual), part(expected), tolerance) for part in (np.real, np.imag)]
        return np.logical_and(*parts)
    a, e = (np.asarray(x, np.float64) for x in (actual, expected))
    with np.errstate(invalid="ignore"):
        close = np.isfinite(a) & np.isfinite(e) & (np.abs(a - e) <= tolerance)
    return np.asarray((a == e) | (np.isnan(a) & np.isnan(e)) | close)


FAR = np.uint64(2**64 - 1)


def ulps(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """For each element, the number of representable values between `actual` and `expected`: 0 for two NaNs,
    FAR if only one number is finite or if they are different infinities. For complex numbers it is the larger
    distance of the parts.
    """
    if actual.dtype.kind == "c":
        return np.maximum(*[ulps(part(actual), part(expected)) for part in (np.real, np.imag)])
    if actual.dtype.kind in "iub":
        raise UnsupportedError(f"a distance in ULP needs floating-point values, found {actual.dtype}")
    bits = actual.dtype.itemsize * 8
    raw = [np.ascontiguousarray(x).view(f"u{bits // 8}").astype(np.uint64) for x in (actual, expected)]
    raw = [r.reshape(actual.shape) for r in raw]
    low = np.uint64((1 << (bits - 1)) - 1)
    (size_a, size_e), negative = [r & low for r in raw], [r > low for r in raw]
    apart = np.where(
        negative[0] == negative[1], np.maximum(size_a, size_e) - np.minimum(size_a, size_e), size_a + size_e
    )
    wide = [np.asarray(x, np.float64) for x in (actual, expected)]
    finite = np.isfinite(wide[0]) & np.isfinite(wide[1])
    same = (raw[0] == raw[1]) | (np.isnan(wide[0]) & np.isnan(wide[1]))
    return np.where(same, np.uint64(0), np.where(finite, apart, FAR))
