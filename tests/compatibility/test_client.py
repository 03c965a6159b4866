"""The client of XLA's documents, on every backend."""

import ml_dtypes
import numpy as np
import pytest

from axla.builder import ComputationBuilder
from axla.client import Client, ClientLibrary, GlobalData, LocalClient
from axla.core.dtypes import F32, S32
from axla.core.errors import InvalidArgument, ShapeError
from axla.core.literal import Literal
from axla.core.shape import Layout, Shape, TupleShape
from service_server import REMOTE, with_server

METHODS = [
    "TransferToServer", "TransferInProcess", "TransferToServerInProcess", "TransferFromServerInProcess",
    "Transfer", "Execute", "ExecuteAndTransfer", "ExecuteAsync", "ExecuteParallel", "WaitForExecution",
    "Unregister", "DeconstructTuple", "GetShape",
    "GetComputationShape", "Compile", "ComputeConstant",
]  # fmt: skip


@pytest.fixture(params=["cpu", "one-lane", "interpreter", *REMOTE])
def client(request) -> Client:
    return Client(with_server(request))


def add_one(client, shape=None):
    builder = ComputationBuilder(client, "add_one")
    builder.Add(builder.Parameter(0, shape or Shape(F32, (3,)), "x"), builder.ConstantR0(1.0))
    return builder.Build()


def split(client):
    """x -> (x + 1, (x, 7))"""
    builder = ComputationBuilder(client, "split")
    x = builder.Parameter(0, Shape(F32, (3,)), "x")
    builder.Tuple([builder.Add(x, builder.ConstantR0(1.0)), builder.Tuple([x, builder.ConstantR0(7)])])
    return builder.Build()


X = np.float32([1, 2, 3])


def test_methods_in_both_spellings():
    from axla.compatibility.computation_builder import snake_case

    for name in METHODS:
        assert getattr(Client, name) is getattr(Client, snake_case(name))
    assert ClientLibrary.client_library_or_die("interpreter") is ClientLibrary.ClientLibraryOrDie(
        "interpreter"
    )


def test_one_client_per_backend():
    first = ClientLibrary.GetOrCreateLocalClient("interpreter")
    assert first is ClientLibrary.LocalClientOrDie("interpreter")
    assert isinstance(first, LocalClient) and first.platform() == "interpreter" and first.device_count() == 1
    with pytest.raises(InvalidArgument, match="backend='tpu'"):
        ClientLibrary.GetOrCreateLocalClient("tpu")


def test_execute_and_transfer(client):
    result = client.ExecuteAndTransfer(add_one(client), [client.TransferToServer(X)])
    assert result.shape is Shape(F32, (3,)) and result.array.tolist() == [2, 3, 4]


def test_results_stay_on_the_device(client):
    computation, data = add_one(client), client.TransferToServer(Literal.of(X))
    for _ in range(3):
        data = client.Execute(computation, [data])
    assert isinstance(data, GlobalData) and client.GetShape(data) is Shape(F32, (3,))
    assert client.Transfer(data).array.tolist() == [4, 5, 6]


def test_a_computation_is_compiled_once(client):
    computation = add_one(client)
    assert client.Compile(computation) is client.Compile(computation)
    assert str(client.GetComputationShape(computation)) == "(x: f32[3]) -> f32[3]"


def test_tuples(client):
    data = client.Execute(split(client), [client.TransferToServer(X)])
    assert data.shape is TupleShape((Shape(F32, (3,)), TupleShape((Shape(F32, (3,)), Shape(S32)))))
    first, second = client.DeconstructTuple(data)
    assert client.Transfer(first).array.tolist() == [2, 3, 4]
    literal = client.Transfer(second)
    assert [e.array.tolist() for e in literal.elements] == [[1, 2, 3], 7]
    with pytest.raises(InvalidArgument, match="wanted a tuple"):
        client.DeconstructTuple(first)


def test_tuple_arguments(client):
    builder = ComputationBuilder(client, "sum")
    pair = builder.Parameter(0, TupleShape((Shape(F32, (3,)), Shape(F32, (3,)))), "pair")
    builder.Add(builder.GetTupleElement(pair, 0), builder.GetTupleElement(pair, 1))
    data = client.TransferToServer((X, 10 * X))
    assert client.ExecuteAndTransfer(builder.Build(), [data]).array.tolist() == [11, 22, 33]


def test_transfer_to_server_copies(client):
    source = X.copy()
    data = client.TransferToServer(source)
    source[:] = 0
    assert client.Transfer(data).array.tolist() == [1, 2, 3]


def test_transfer_in_process_shares_memory(client):
    source = X.copy()
    source.flags.writeable = False
    data = client.TransferInProcess(source)
    assert client.ExecuteAndTransfer(add_one(client), [data]).array.tolist() == [2, 3, 4]
    back = client.TransferInProcess(data)
    assert np.shares_memory(back.array, source)
    assert not np.shares_memory(client.Transfer(data).array, source)


def test_data_outlives_its_client(client):
    literal = Client(client.backend).ExecuteAndTransfer(add_one(client), [client.TransferToServer(X)])
    assert literal.array.tolist() == [2, 3, 4]


def test_layouts_of_results(client):
    builder = ComputationBuilder(client, "matrix")
    builder.ConstantR2([[1, 2, 3], [4, 5, 6]])
    computation = builder.Build()
    wanted = Shape(S32, (2, 3), layout=Layout((0, 1)))
    literal = client.ExecuteAndTransfer(computation, [], wanted)
    assert literal.shape is wanted and literal.array.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert client.Execute(computation, [], wanted).shape is wanted
    for refuse in (client.ExecuteAndTransfer, client.Execute):
        with pytest.raises(ShapeError, match=r"s32\[2,3\], not f32\[\]"):
            refuse(computation, [], Shape(F32))


def test_wrong_arguments_name_the_parameter(client):
    computation = add_one(client)
    with pytest.raises(InvalidArgument, match="add_one: found 0 arguments, wanted 1"):
        client.Execute(computation, [])
    with pytest.raises(InvalidArgument, match=r"parameter 0 \(x\): found s32\[3\], wanted f32\[3\]"):
        client.Execute(computation, [client.TransferToServer(np.int32([1, 2, 3]))])
    with pytest.raises(InvalidArgument, match=r"parameter 0 \(x\): found ndarray, wanted GlobalData"):
        client.Execute(computation, [X])
    with pytest.raises(InvalidArgument, match="wanted a literal"):
        client.TransferToServer("text")


def test_unregistered_data_is_gone(client):
    data = client.TransferToServer(X)
    client.Unregister(data)
    with pytest.raises(InvalidArgument, match="was unregistered"):
        client.Execute(add_one(client), [data])
    assert "unregistered" in repr(data)


def test_compute_constant_gives_data_of_the_client(client):
    builder = ComputationBuilder(client, "f")
    data = builder.ComputeConstant(builder.Mul(builder.ConstantR0(6), builder.ConstantR0(7)))
    assert client.Transfer(data).array == 42
    builder = ComputationBuilder(client, "g")
    builder.ConstantR0(5)
    assert client.ComputeConstant(builder.Build()).array == 5


def test_execute_parallel(client):
    computation = add_one(client)
    results = client.ExecuteParallel([(computation, [client.TransferToServer(X + k)]) for k in range(2)])
    assert [client.Transfer(r).array.tolist() for r in results] == [[2, 3, 4], [3, 4, 5]]


def test_types_without_a_buffer_format(client):
    builder = ComputationBuilder(client, "bf16")
    x = np.array([1.5, -2], ml_dtypes.bfloat16)
    builder.Neg(builder.Parameter(0, Literal.of(x).shape, "x"))
    result = client.ExecuteAndTransfer(builder.Build(), [client.TransferToServer(x)])
    assert result.array.dtype == x.dtype and result.array.astype(float).tolist() == [-1.5, 2]


def test_wrong_python_values_are_errors_of_ours(client):
    data, computation = client.TransferToServer(np.float32([1, 2, 3])), add_one(client)
    wrong = [None, 1.7, "XX", {1: 2}, [1.7], object(), np.float32([1, 2])]
    for call in (
        client.GetShape, client.Unregister, client.DeconstructTuple, client.Transfer, client.Compile,
        client.GetComputationShape, client.ExecuteParallel, client.ComputeConstant,
        lambda value: client.Execute(value, [data]), lambda value: client.Execute(computation, value),
        lambda value: client.TransferToInfeed(1.0, value), lambda value: client.TransferFromOutfeed(value, 0),
        ClientLibrary.GetOrCreateLocalClient,
    ):  # fmt: skip
        for value in wrong:
            with pytest.raises(InvalidArgument):
                call(value)
    for value in wrong[1:]:
        with pytest.raises(InvalidArgument):
            client.Execute(computation, [data], value)
        with pytest.raises(InvalidArgument):
            client.Transfer(data, value)


def test_execute_async_and_wait(client):
    computation, data = add_one(client), client.TransferToServer(X)
    handles = [client.ExecuteAsync(computation, [data]) for _ in range(3)]
    for handle in reversed(handles):
        assert client.Transfer(client.WaitForExecution(computation, handle)).array.tolist() == [2, 3, 4]
    with pytest.raises(InvalidArgument, match="<ExecutionHandle of add_one.*> was waited for already"):
        client.WaitForExecution(computation, handles[0])
    handle = client.ExecuteAsync(computation, [data])
    with pytest.raises(InvalidArgument, match="is of another computation"):
        client.WaitForExecution(split(client), handle)
    assert client.GetShape(client.WaitForExecution(computation, handle)) is Shape(F32, (3,))
    with pytest.raises(InvalidArgument, match="found 0 arguments, wanted 1"):
        client.ExecuteAsync(computation)
    for wrong in (None, 3, data):
        with pytest.raises(InvalidArgument, match="WaitForExecution"):
            client.WaitForExecution(computation, wrong)
