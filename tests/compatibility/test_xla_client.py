"""The names of XLA's Python module xla_client."""

import ml_dtypes
import numpy as np
import pytest

import axla.xla_client as xc
from axla.core.dtypes import BF16, F32, S32
from axla.core.errors import InvalidArgument
from axla.core.shape import TOKEN, Layout, TupleShape
from axla.core.shape import Shape as ArrayShape


@pytest.mark.parametrize("name", xc.__all__)
def test_public_name(name):
    assert getattr(xc, name) is not None


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_a_program_of_the_old_tutorials(backend):
    b = xc.XlaBuilder("f")
    x = xc.ops.Parameter(b, 0, xc.Shape.array_shape(np.dtype(np.float32), (3,)))
    y = xc.ops.Add(x, xc.ops.ConstantLiteral(b, np.float32(1)))
    client = xc.make_cpu_client(backend)
    executable = client.compile(b.build(xc.ops.Tuple(b, [y, xc.ops.Neg(x)])))
    first, second = xc.execute_with_python_values(executable, [np.float32([1, 2, 3])], backend=client)
    assert first.tolist() == [2, 3, 4] and second.tolist() == [-1, -2, -3]
    assert executable.hlo_modules()[0].name == "f"
    found = executable.execute([client.buffer_from_pyval(np.float32([0, 0, 0]))])
    assert np.asarray(found[0]).tolist() == [1, 1, 1]
    assert (client.platform, client.device_count()) == (backend, 1)


def test_shapes():
    assert xc.Shape.array_shape(xc.PrimitiveType.F32, [2, 3]) is ArrayShape(F32, (2, 3))
    assert xc.Shape.array_shape(np.float32, [2, 3], [0, 1]) is ArrayShape(F32, (2, 3), layout=Layout((0, 1)))
    assert xc.Shape.array_shape(np.float32, [2], None, [True]) is ArrayShape(F32, (2,), (True,))
    assert xc.Shape.scalar_shape(np.dtype(np.int32)) is ArrayShape(S32)
    assert xc.Shape.tuple_shape([ArrayShape(F32)]) is TupleShape((ArrayShape(F32),))
    assert xc.Shape.token_shape() is TOKEN and xc.Shape.opaque_shape().is_opaque
    assert xc.Shape("f32[2,3]{0,1}") is ArrayShape(F32, (2, 3), layout=Layout((0, 1)))


def test_shape_from_pyval():
    value = (np.float32([1]), (np.int32(1),))
    assert str(xc.shape_from_pyval(value)) == "(f32[1]{0}, (s32[]))"
    assert xc.shape_from_pyval(np.zeros((2, 3), np.float32), [0, 1]).layout.minor_to_major == (0, 1)


def test_element_types():
    assert xc.dtype_to_etype(ml_dtypes.bfloat16) is xc.PrimitiveType.BF16 is BF16
    assert xc.XLA_ELEMENT_TYPE_TO_DTYPE[xc.PrimitiveType.U8] == np.uint8
    with pytest.raises(InvalidArgument, match="dtype_to_etype"):
        xc.dtype_to_etype(np.dtype("U1"))


def test_window_padding():
    same, valid = xc.PaddingType.SAME, xc.PaddingType.VALID
    assert xc.window_padding_type_to_pad_values(same, (5, 6), (3, 3), (1, 2)) == [(1, 1), (0, 1)]
    assert xc.window_padding_type_to_pad_values(valid, (5, 6), (3, 3), (1, 2)) == [(0, 0), (0, 0)]
    with pytest.raises(InvalidArgument, match="padding_type"):
        xc.window_padding_type_to_pad_values("same", (5,), (3,), (1,))


def test_compile_options_as_jaxlib_has_them():
    options = pytest.importorskip("jaxlib.xla_client").CompileOptions()
    options.env_option_overrides = [("axla_donate", "[0]")]
    b = xc.XlaBuilder("f")
    x = xc.ops.Parameter(b, 0, xc.Shape.array_shape(np.dtype(np.float32), (3,)))
    executable = xc.make_cpu_client().compile(b.build(xc.ops.Neg(x)), options)
    given = executable.client.buffer_from_pyval(np.float32([1, 2, 3]))
    assert executable.execute([given])[0].tolist() == [-1, -2, -3] and given.is_deleted
