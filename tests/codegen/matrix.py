"""The corpus of one-operation programs: what XLA:CPU computes, special values included."""

from __future__ import annotations

import io
import re
import tarfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from axla.codegen.value import Value, Values
from axla.core.dtypes import DType, dtype

ARCHIVE = Path(__file__).parents[3] / "shared" / "conformance" / "hlo-open.tar.gz"


@dataclass(frozen=True)
class Program:
    name: str
    opcode: str
    operands: tuple[DType, ...]
    result: DType
    attributes: str
    inputs: tuple[np.ndarray, ...]
    wanted: np.ndarray

    def body(self, values: Values, *operands: Value) -> Value:
        """The operation, as an emitter would ask for it."""
        if self.opcode == "compare":
            direction = re.search(r"direction=(\w+)", self.attributes)[1]
            return values.compare(direction, *operands, total_order="TOTALORDER" in self.attributes)
        if self.opcode == "convert":
            return values.convert(*operands, self.result)
        if self.opcode == "bitcast-convert":
            return values.bitcast_convert(*operands, self.result)
        if self.opcode == "reduce-precision":
            bits = [
                int(re.search(rf"{name}_bits=(\d+)", self.attributes)[1]) for name in ("exponent", "mantissa")
            ]
            return values.reduce_precision(*operands, *bits)
        if len(operands) == 3:
            return getattr(values, self.opcode)(*operands)
        return (values.unary if len(operands) == 1 else values.binary)(self.opcode, *operands)


def programs() -> list[Program]:
    """All programs of the corpus; skips the test that asks where it is absent."""
    if not ARCHIVE.exists():
        pytest.skip(f"no corpus at {ARCHIVE}")
    texts: dict[str, str] = {}
    arrays: dict[str, dict[str, np.ndarray]] = {}
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            path = Path(member.name)
            if path.parent.name == "matrix" and path.suffix in (".hlo", ".npz"):
                data = archive.extractfile(member).read()
                if path.suffix == ".hlo":
                    texts[path.stem] = data.decode()
                else:
                    arrays[path.stem] = dict(np.load(io.BytesIO(data)))
    return [_program(name, texts[name], arrays[name]) for name in sorted(texts)]


def _program(name: str, text: str, arrays: dict[str, np.ndarray]) -> Program:
    kinds = [dtype(kind) for kind in re.findall(r"= (\w+)\[\d+\](?:\{0\})? parameter\(", text)]
    root = re.search(r"ROOT \S+ = (\w+)\[\d+\](?:\{0\})? ([\w-]+)\(([^)]*)\)(.*)", text)
    order = [
        int(re.search(rf"{operand.strip().lstrip('%')} = \S+ parameter\((\d+)\)", text)[1])
        for operand in root[3].split(",")
    ]
    inputs = [_decode(arrays[f"in{k}"], kinds[k]) for k in order]
    result = dtype(root[1])
    return Program(
        name,
        root[2],
        tuple(kinds[k] for k in order),
        result,
        root[4],
        tuple(inputs),
        _decode(arrays["out0"], result),
    )


def _decode(array: np.ndarray, kind: DType) -> np.ndarray:
    """Floats NumPy's files do not know are stored as their bits, 4-bit integers as bytes."""
    if array.dtype == kind.numpy:
        return array
    if kind.is_float:
        return array.view(kind.numpy)
    return array.astype(kind.numpy)
