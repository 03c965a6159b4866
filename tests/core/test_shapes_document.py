"""The worked examples of XLA's page on shapes and layout; one test per example, named after its section."""

import numpy as np
import pytest

from axla.core import index_util, shape_util
from axla.core.dtypes import F32, S32
from axla.core.errors import ShapeError
from axla.core.literal import Literal
from axla.core.shape import Layout, Shape, default_layout

A, B, C = 5, 6, 7
LETTERS = np.frombuffer(b"abcdef", np.uint8).reshape(2, 3)


def letters(memory: np.ndarray) -> str:
    return " ".join(chr(c) if c else "0" for c in memory)


def test_terminology_rank_and_true_rank():
    assert shape_util.rank(Shape(F32, (4, 1, 3, 1))) == 4
    assert shape_util.true_rank(Shape(F32, (4, 1, 3, 1))) == 2
    assert shape_util.rank(Shape(F32)) == shape_util.true_rank(Shape(F32)) == 0
    assert shape_util.true_rank(Shape(F32, (0, 3))) == 1, "sizes greater than 1 count"


def test_terminology_dimensions_are_listed_by_number():
    shape = shape_util.make_shape(F32, (A, B, C, 8))
    assert shape.dims == (A, B, C, 8)
    assert [shape_util.dimension(shape, d) for d in range(4)] == [A, B, C, 8]


def test_terminology_negative_dimension_numbers():
    shape = shape_util.make_shape(F32, (A, B, C))
    assert shape_util.dimension(shape, -1) == C
    assert shape_util.dimension(shape, -2) == B
    assert shape_util.dimension_number(shape, -3) == 0
    for outside in (3, -4):
        with pytest.raises(ShapeError, match="-3 to 2"):
            shape_util.dimension(shape, outside)
    with pytest.raises(ShapeError, match="no dimensions"):
        shape_util.dimension(Shape(F32), 0)


def test_layout_column_major():
    assert letters(shape_util.pack(Literal.of(LETTERS), Layout((0, 1)))) == "a d b e c f"


def test_layout_row_major():
    assert letters(shape_util.pack(Literal.of(LETTERS), Layout((1, 0)))) == "a b c d e f"


def test_layout_default_is_major_to_minor():
    assert shape_util.make_shape(F32, (A, B, C)).layout is default_layout(3)
    assert default_layout(3).minor_to_major == (2, 1, 0)


def test_padding_column_major():
    memory = shape_util.pack(Literal.of(LETTERS), Layout((0, 1)), shape_util.Padding((3, 5)))
    assert letters(memory) == "a d 0 b e 0 c f 0 0 0 0 0 0 0"


def test_padding_equals_the_layout_of_the_larger_array():
    larger = np.zeros((3, 5), np.uint8)
    larger[:2, :3] = LETTERS
    for order in ((0, 1), (1, 0)):
        padded = shape_util.pack(Literal.of(LETTERS), Layout(order), shape_util.Padding((3, 5)))
        assert padded.tolist() == shape_util.pack(Literal.of(larger), Layout(order)).tolist()


def test_padding_must_name_every_dimension():
    with pytest.raises(ShapeError, match="found 1 padded dimensions, wanted one per dimension, 2"):
        shape_util.pack(Literal.of(LETTERS), None, shape_util.Padding((3,)))
    with pytest.raises(ShapeError, match="dimension 1 of size 3 cannot be padded to width 2"):
        shape_util.pack(Literal.of(LETTERS), None, shape_util.Padding((3, 2)))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)])
@pytest.mark.parametrize("padding", [None, shape_util.Padding((4, 3, 7), 9)])
def test_padding_unpack_undoes_pack(order, padding):
    shape = Shape(S32, (3, 2, 4), layout=Layout(order))
    literal = Literal(shape, np.arange(24, dtype=np.int32).reshape(3, 2, 4))
    memory = shape_util.pack(literal, None, padding)
    assert memory.size == shape_util.elements_in_memory(shape, padding) == (84 if padding else 24)
    assert (memory == 9).sum() == (61 if padding else 1)
    assert shape_util.unpack(memory, shape, padding) == literal


def test_unpack_refuses_memory_of_another_size_or_type():
    with pytest.raises(ShapeError, match="found 5 elements"):
        shape_util.unpack(np.zeros(5, np.int32), Shape(S32, (2, 3)))
    with pytest.raises(ShapeError, match="of float64"):
        shape_util.unpack(np.zeros(6), Shape(S32, (2, 3)))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
@pytest.mark.parametrize("padding", [None, shape_util.Padding((4, 3, 7), -1)])
def test_indexing_into_arrays(order, padding):
    shape = Shape(S32, (3, 2, 4), layout=Layout(order))
    literal = Literal(shape, np.arange(24, dtype=np.int32).reshape(3, 2, 4))
    memory = shape_util.pack(literal, None, padding)
    found = list(index_util.indices(shape))
    assert found == list(np.ndindex(3, 2, 4))
    for index in found:
        linear = index_util.multidimensional_index_to_linear_index(shape, index, padding)
        assert memory[linear] == literal.array[index]
        assert index_util.linear_index_to_multidimensional_index(shape, linear, padding) == index


def test_indexing_outside_is_refused():
    shape = Shape(S32, (3, 2), layout=Layout((0, 1)))
    for index in ((3, 0), (0, -1), (0,)):
        with pytest.raises(ShapeError, match="not inside"):
            index_util.multidimensional_index_to_linear_index(shape, index)
    with pytest.raises(ShapeError, match="6 elements"):
        index_util.linear_index_to_multidimensional_index(shape, 6)
    with pytest.raises(ShapeError, match="is padding"):
        index_util.linear_index_to_multidimensional_index(shape, 3, shape_util.Padding((4, 2)))


def test_indexing_empty_and_scalar():
    assert list(index_util.indices(Shape(S32, (2, 0)))) == []
    assert list(index_util.indices(Shape(S32))) == [()]


def test_subshape_of_nested_tuples():
    inner = shape_util.make_tuple_shape([Shape(F32, (2,)), Shape(S32)])
    outer = shape_util.make_tuple_shape([Shape(F32), inner])
    assert shape_util.subshape(outer, (1, 0)) is Shape(F32, (2,))
    assert shape_util.subshape(outer, ()) is outer
    with pytest.raises(ShapeError, match="entry 1 is 2"):
        shape_util.subshape(outer, (1, 2))
