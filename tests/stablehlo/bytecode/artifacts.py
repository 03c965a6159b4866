"""Whether two readers give the same operations, and jaxlib's readers and writers of MLIR."""

from __future__ import annotations

import functools
import io

import numpy as np

from axla.stablehlo import mlir


def assert_same(first: mlir.Source, second: mlir.Source) -> None:
    """Names, operands, types, attributes, regions and locations are equal, in the same order."""
    values: dict[int, int] = {}
    todo = [(first.module, second.module)]
    while todo:
        a, b = todo.pop()
        assert a.name == b.name
        assert [v.type for v in a.results] == [v.type for v in b.results], a.name
        assert [values[id(v)] for v in a.operands] == [id(v) for v in b.operands], a.name
        values.update(zip(map(id, a.results), map(id, b.results), strict=True))
        assert_equal(a.attributes, b.attributes, a.name)
        assert a.location == b.location, a.name
        assert [len(r.blocks) for r in a.regions] == [len(r.blocks) for r in b.regions], a.name
        inner = []
        for c, d in zip(blocks(a), blocks(b), strict=True):
            assert [v.type for v in c.arguments] == [v.type for v in d.arguments], a.name
            assert (c.locations or []) == (d.locations or []), a.name
            values.update(zip(map(id, c.arguments), map(id, d.arguments), strict=True))
            inner += zip(c.operations, d.operations, strict=True)
        todo += reversed(inner)


def blocks(operation: mlir.Operation) -> list[mlir.Block]:
    return [block for region in operation.regions for block in region.blocks]


def assert_equal(a, b, where) -> None:
    """Attributes are equal; dense elements bit by bit, a splat as the array that it stands for."""
    assert type(a) is type(b), (where, a, b)
    if isinstance(a, mlir.DenseElements):
        assert a.type == b.type and a.values.dtype == b.values.dtype, (where, a, b)
        assert full(a).tobytes() == full(b).tobytes(), (where, a, b)
    elif isinstance(a, mlir.FloatAttr):
        assert a.type == b.type and np.asarray(a.value).tobytes() == np.asarray(b.value).tobytes(), (
            where,
            a,
            b,
        )
    elif isinstance(a, mlir.StructAttr):
        assert (a.mnemonic, a.dialect) == (b.mnemonic, b.dialect), (where, a, b)
        assert_equal(a.fields, b.fields, (where, a.mnemonic))
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), (where, a, b)
        for key in a:
            assert_equal(a[key], b[key], (where, key))
    elif isinstance(a, tuple):
        assert len(a) == len(b), (where, a, b)
        for x, y in zip(a, b, strict=True):
            assert_equal(x, y, where)
    else:
        assert a == b, (where, a, b)


def full(elements: mlir.DenseElements) -> np.ndarray:
    return np.broadcast_to(elements.values, elements.type.shape)  # type: ignore[arg-type]


@functools.cache
def context():
    from jax._src.interpreters import mlir as jax_mlir

    return jax_mlir.make_ir_context()


def parsed(text: str):
    from jaxlib.mlir import ir

    with context():
        return ir.Module.parse(text)


def portable(text: str, version: str) -> bytes:
    """The artifact; raises ValueError when the version cannot say it."""
    from jaxlib.mlir.dialects import stablehlo

    return stablehlo.serialize_portable_artifact_str(text, version)


def mixed(module, version: str) -> bytes:
    """The artifact with operations of other dialects as they are. The module is changed."""
    from jaxlib.mlir.dialects import stablehlo

    with context():
        return stablehlo.serialize_portable_artifact(module, version, True)


def restored(artifact: bytes):
    from jaxlib.mlir.dialects import stablehlo

    with context():
        return stablehlo.deserialize_portable_artifact(context(), artifact)


def plain(module) -> bytes:
    out = io.BytesIO()
    module.operation.write_bytecode(out)
    return out.getvalue()


def generic(module) -> str:
    return module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True, use_local_scope=True)
