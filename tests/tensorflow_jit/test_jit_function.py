"""`axla.tensorflow.jit`: functions are one program, eagerly and in graphs, with variables and gradients."""

import copy
import gc
import pickle
import threading
import weakref

import numpy as np
import pytest

import tensorflow as tf
from axla import InvalidArgument, UnsupportedError
from axla.tensorflow import jit

X = tf.constant(np.linspace(-2, 2, 8, dtype=np.float32))


def operations(graph):
    """The kinds of the operations of a graph, and of the functions that it calls."""
    graphs = [graph, *(one.graph for one in graph._functions.values())]
    return {operation.type for each in graphs for operation in each.get_operations()}


def test_a_function_is_one_operation():
    @jit
    def f(x, y):
        return tf.exp(x) * y + tf.reduce_sum(x)

    np.testing.assert_allclose(f(X, X), tf.exp(X) * X + tf.reduce_sum(X), rtol=1e-5)
    np.testing.assert_allclose(f(X + 1, X), tf.exp(X + 1) * X + tf.reduce_sum(X + 1), rtol=1e-5)
    around = {"Placeholder", "AxlaLaunch", "Identity", "NoOp"}
    assert operations(f.get_concrete_function(X, X).graph) == around
    assert len(f.traces) == 1 and f.__name__ == "f"


def test_traces_are_those_of_tensorflow():
    traced = []

    @jit
    def f(x, scale=2, *, shift=None):
        traced.append((x.dtype.name, tuple(x.shape), scale, shift))
        return x * scale if shift is None else x * scale + shift

    for _ in range(3):
        assert f(X[:1]) == X[0] * 2
        assert f(X[:1], 3) == X[0] * 3
        assert f(X[:1], scale=3) == X[0] * 3
        assert f(X[:1], 3, shift=1) == X[0] * 3 + 1
        assert f(X[:1], shift=X[1:2]) == X[0] * 2 + X[1]
        assert f(X[:2]).shape == (2,)
        assert f(tf.constant([4])) == 8
        assert f(np.array([4])) == 8
    shapes = [(name, dims) for name, dims, _, _ in traced]
    assert shapes == [("float32", (1,))] * 4 + [("float32", (2,)), ("int32", (1,)), ("int64", (1,))]


@pytest.mark.parametrize("again", [1, 3])
def test_structures(again):
    @jit
    def f(pair, names):
        a, (b, c) = pair
        return {"sum": a + b, "others": (c, None, [names["z"] - names["y"]])}

    for _ in range(again):
        found = f((X, [X + 1, X + 2]), {"z": X, "y": X * 2})
        assert set(found) == {"sum", "others"} and found["others"][1] is None
        np.testing.assert_allclose(found["sum"], X * 2 + 1, rtol=1e-6)
        np.testing.assert_array_equal(found["others"][0], X + 2)
        np.testing.assert_array_equal(found["others"][2][0], -X)


def test_any_number_of_arguments():
    @jit
    def f(first, *rest, scale=2.0, **more):
        return (first + sum(rest)) * scale + sum(more.values())

    for _ in range(2):
        np.testing.assert_allclose(f(X), X * 2, rtol=1e-6)
        np.testing.assert_allclose(f(X, X, 1.0, scale=tf.constant(3.0)), (2 * X + 1) * 3, rtol=1e-5)
        np.testing.assert_allclose(f(X, a=X, b=X), X * 4, rtol=1e-6)


def test_the_same_tensor_twice():
    f = jit(lambda x, y: x - y)
    np.testing.assert_array_equal(f(X, X), np.zeros(8))
    np.testing.assert_array_equal(f(X, X * 2), -X)


def test_arguments_that_nothing_uses():
    f = jit(lambda x, name: x * 2)
    for _ in range(2):
        np.testing.assert_array_equal(f(X, tf.constant("text")), X * 2)
    nothing = jit(lambda x: None)
    assert nothing(X) is None and nothing(X) is None
    same = jit(lambda x: x)
    np.testing.assert_array_equal(same(X), X)


def test_options_are_those_of_tensorflow():
    shapes = []
    spec = tf.TensorSpec([None], tf.float32)

    @jit(input_signature=[spec])
    def given(x):
        shapes.append(x.shape.as_list())
        return x + 1

    @tf.function(reduce_retracing=True, autograph=False)
    def relaxed(x):
        shapes.append(x.shape.as_list())
        return x + 1

    both = given, jit(relaxed)
    for f in both:
        for size in (2, 3, 4, 2):
            np.testing.assert_array_equal(f(X[:size]), X[:size] + 1)
    assert shapes == [[None], [2], [None]]
    assert [len(traced.cluster.executables) for f in both for traced in f.traces] == [3, 1, 2]
    with pytest.raises(TypeError):
        given(tf.constant([1]))
    with pytest.raises(InvalidArgument, match="fn is int, wanted a function"):
        jit(3)


def test_control_flow_of_python():
    @jit
    def collatz(n):
        count = tf.constant(0)
        while n > 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
                count += 1
            count += 1
        return count

    assert [int(collatz(tf.constant(n))) for n in (1, 6, 27)] == [0, 10, 152]


# Variables.


def test_variables_are_read_and_written():
    weight, count, unused = tf.Variable(X), tf.Variable(0), tf.Variable(1.0)

    @jit
    def step(x):
        before = weight + unused * 0
        weight.assign_sub(0.5 * x)
        count.assign_add(1)
        return before

    expected = X.numpy()
    for turn in range(4):
        np.testing.assert_array_equal(step(X), expected)
        expected = expected - 0.5 * X.numpy()
        np.testing.assert_array_equal(weight, expected)
        assert count == turn + 1
    (traced,) = step.traces
    assert len(traced.fed) == 4 and len(traced.written) == 2


def test_variables_in_branches_loops_and_calls():
    def made(compiled):
        total, last = tf.Variable(0.0), tf.Variable(-1.0)

        @tf.function
        def add(x):
            total.assign_add(x)

        @compiled
        def f(x, n):
            for i in tf.range(n):
                if tf.cast(i, tf.float32) > x:
                    last.assign(tf.cast(i, tf.float32))
                else:
                    add(2.0)
            return total + last

        return f, total, last

    (ours, *mine), (theirs, *others) = made(jit), made(tf.function)
    for n in (1, 2, 4, 1):
        assert ours(tf.constant(1.5), tf.constant(n)) == theirs(tf.constant(1.5), tf.constant(n))
        assert [float(variable) for variable in mine] == [float(variable) for variable in others]
    assert len(ours.traces[0].written) == 2


def test_a_variable_that_this_path_does_not_write():
    value = tf.Variable(3.0)

    @jit
    def f(flag):
        if flag:
            value.assign(5.0)
        return tf.constant(1)

    f(tf.constant(False))
    assert value == 3.0
    f(tf.constant(True))
    assert value == 5.0


def test_variables_that_the_first_call_makes():
    class Dense(tf.Module):
        def __init__(self):
            super().__init__()
            self.weight = None

        @jit
        def __call__(self, x):
            if self.weight is None:
                self.weight = tf.Variable(tf.ones([x.shape[0], 2]) * 3)
            return tf.linalg.matvec(self.weight, x, transpose_a=True)

    first, second = Dense(), Dense()
    for _ in range(3):
        np.testing.assert_allclose(first(X), [3 * tf.reduce_sum(X)] * 2, atol=1e-5)
    np.testing.assert_allclose(second(X + 1), [24, 24], rtol=1e-6)
    assert first.weight is not second.weight and len(first.trainable_variables) == 1


def test_variables_as_arguments():
    f = jit(lambda variable, x: variable.assign_add(x))
    one, other = tf.Variable(1.0), tf.Variable(10.0)
    for _ in range(2):
        f(one, 2.0)
        f(other, 3.0)
    assert (float(one), float(other)) == (5, 16)


def test_a_variable_that_is_an_argument_and_used_otherwise():
    one, other = tf.Variable(1.0), tf.Variable(10.0)

    @jit
    def f(variable, x):
        variable.assign_add(x)
        return one + 1

    for _ in range(2):
        assert f(other, 2.0) == 2
    with pytest.raises(UnsupportedError, match="function 'f': a variable is an argument and is also used"):
        f(one, 2.0)
    assert (float(one), float(other)) == (1, 14)
    same = jit(lambda first, second: first.assign_add(second))
    for value in (2, 4):
        assert same(one, one) == one == value


def test_rows_of_variables():
    table = tf.Variable(tf.zeros([5, 2]))

    @jit
    def f(rows, values):
        table.scatter_add(tf.IndexedSlices(values, rows))
        return tf.gather(table, rows)

    found = f(tf.constant([3, 1]), tf.ones([2, 2]))
    np.testing.assert_array_equal(found, np.ones([2, 2]))
    np.testing.assert_array_equal(tf.reduce_sum(table, 1), [0, 2, 0, 2, 0])


def test_generators_go_on():
    ours, theirs = tf.random.Generator.from_seed(7), tf.random.Generator.from_seed(7)
    f = jit(lambda: ours.uniform([4], maxval=100, dtype=tf.int32))
    wanted = tf.function(lambda: theirs.uniform([4], maxval=100, dtype=tf.int32), jit_compile=True)
    for _ in range(3):
        np.testing.assert_array_equal(f(), wanted())


# Graphs.


def test_calls_in_functions_and_in_sessions():
    count = tf.Variable(0)

    @jit
    def f(x):
        count.assign_add(1)
        return tf.tanh(x) * 2

    @tf.function
    def outer(x):
        return f(f(x) + 1)

    np.testing.assert_allclose(outer(X), tf.tanh(tf.tanh(X) * 2 + 1) * 2, rtol=1e-6)
    assert count == 2 and outer(X[:3]).shape == (3,)
    assert outer.get_concrete_function(tf.TensorSpec([None])).structured_outputs.shape.as_list() == [None]

    pure = jit(lambda x: tf.tanh(x) * 2)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, [None])
        y = pure(x)
        (slope,) = tf.gradients(y, x)
        for size in (2, 8):
            given = X.numpy()[:size]
            found, gradient = session.run([y, slope], {x: given})
            np.testing.assert_allclose(found, np.tanh(given) * 2, rtol=1e-6)
            np.testing.assert_allclose(gradient, 2 - 2 * np.tanh(given) ** 2, rtol=1e-5)


def test_in_a_loop_of_tensorflow():
    f = jit(lambda x: x * 2)

    @tf.function
    def outer(x):
        for _ in tf.range(3):
            x = f(x)
        return tf.strings.as_string(x)

    assert outer(tf.constant([1, 2])).numpy().tolist() == [b"8", b"16"]
    dataset = tf.data.Dataset.range(4).map(lambda n: f(n))
    assert [int(n) for n in dataset] == [0, 2, 4, 6]


def test_jitted_functions_in_each_other():
    inner = jit(lambda x: x * 3)
    outer = jit(lambda x: inner(x) + 1)
    np.testing.assert_array_equal(outer(X), X * 3 + 1)
    np.testing.assert_array_equal(inner(X), X * 3)
    assert "AxlaLaunch" not in operations(outer.traces[0].function.graph)


# Gradients.


def both(function):
    """A function, by axla and by TensorFlow."""
    return jit(function), tf.function(function)


def gradients(function, *tensors, variables=()):
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        results = tf.nest.flatten(function(*tensors))
        total = tf.add_n([tf.reduce_sum(tf.sin(result)) for result in results])
    return tape.gradient(total, [*tensors, *variables])


def test_a_tape_outside_of_the_function():
    weight = tf.Variable(tf.reshape(tf.range(32, dtype=tf.float32) / 10, [4, 8]))
    scale = tf.constant(np.arange(4, dtype=np.float32))

    def f(x, number):
        y = tf.linalg.matvec(weight, tf.tanh(x)) * scale
        return y, tf.gather(weight, [1, 1]) * tf.cast(number, tf.float32)

    ours, theirs = both(f)
    for _ in range(2):
        found, wanted = (gradients(g, X, tf.constant(3), variables=[weight]) for g in (ours, theirs))
        assert found[1] is None and wanted[1] is None
        np.testing.assert_allclose(found[0], wanted[0], rtol=2e-5, atol=1e-6)
        np.testing.assert_allclose(found[2], tf.convert_to_tensor(wanted[2]), rtol=2e-5, atol=1e-6)

    @tf.function
    def outer(x):
        return gradients(ours, x, tf.constant(3), variables=[weight])[0]

    np.testing.assert_allclose(outer(X), wanted[0], rtol=2e-5, atol=1e-6)


def test_second_gradients():
    ours, theirs = both(lambda x: x**3 * tf.exp(x))
    found, wanted = (gradients(lambda x, g=g: gradients(g, x)[0], X)[0] for g in (ours, theirs))
    np.testing.assert_allclose(found, wanted, rtol=1e-3)


def test_gradients_of_loops_and_of_functions_with_their_own():
    @tf.custom_gradient
    def twice(x):
        return x * 1.0, lambda change: change * 2

    def f(x):
        for _ in tf.range(3):
            x = twice(x) * x
        return x

    ours, theirs = both(f)
    np.testing.assert_allclose(gradients(ours, X)[0], gradients(theirs, X)[0], rtol=1e-4)


def test_the_gradient_uses_the_values_that_variables_had():
    state = tf.Variable(2.0)

    def f(x):
        y = x * state
        state.assign(100.0)
        return y

    with tf.GradientTape() as tape:
        tape.watch(X)
        y = jit(f)(X)
    assert state == 100
    np.testing.assert_array_equal(tape.gradient(y, X), np.full(8, 2))


def test_forward_gradients():
    ours, theirs = both(lambda x: tf.sin(x) * x)
    found = []
    for f in (ours, theirs):
        with tf.autodiff.ForwardAccumulator(X, tf.ones(8)) as forward:
            y = f(X)
        found.append(forward.jvp(y))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)


def test_random_numbers_have_no_gradient_outside():
    f = jit(lambda x: tf.nn.dropout(x, 0.5))
    assert set(np.unique(f(tf.ones(64)))) <= {0, 2}
    with pytest.raises(UnsupportedError, match="take the gradient inside of it"):
        gradients(f, X)

    @jit
    def inside(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.nn.dropout(x, 0.5)
        return y, tape.gradient(y, x)

    y, slope = inside(tf.ones(64))
    np.testing.assert_array_equal(y, slope)


def test_a_training_step():
    weight, bias = tf.Variable(tf.zeros([3])), tf.Variable(0.0)
    points = tf.constant(np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32))
    wanted = tf.linalg.matvec(points, tf.constant([1.0, -2.0, 0.5])) + 3

    @jit
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.linalg.matvec(points, weight) + bias - wanted) ** 2)
        for variable, change in zip([weight, bias], tape.gradient(loss, [weight, bias]), strict=True):
            variable.assign_sub(0.1 * change)
        return loss

    losses = [float(step()) for _ in range(200)]
    assert losses[0] > 10 and losses[-1] < 1e-6
    np.testing.assert_allclose([*weight.numpy(), bias.numpy()], [1, -2, 0.5, 3], atol=1e-3)


# What cannot be compiled.


def test_errors_name_the_operation_and_the_line():
    def f(x):
        return tf.py_function(lambda value: value, [x], tf.float32)

    line = f.__code__.co_firstlineno + 1
    with pytest.raises(UnsupportedError, match=rf"EagerPyFunc, .*test_jit_function.py:{line}\)"):
        jit(f)(X)
    with pytest.raises(UnsupportedError, match="StringFormat|PrintV2"):
        jit(lambda x: tf.print(x) and None)(X)
    with pytest.raises(UnsupportedError, match="AsString"):
        jit(lambda x: tf.strings.as_string(x))(X)

    @jit
    def branch(x):
        if tf.reduce_sum(x) > 0:
            x = tf.numpy_function(np.sin, [x], tf.float32)
        return x

    with pytest.raises(UnsupportedError, match=r"PyFunc, .*test_jit_function.py"):
        branch(X)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([1], [2]), 0)
    with pytest.raises(UnsupportedError, match="LookupTableFindV2"):
        jit(lambda x: table.lookup(x))(tf.constant([1]))


def test_errors_of_the_compiler():
    count = tf.Variable(0)

    def f(x):
        count.assign_add(1)
        return tf.where(x > 0)

    message = (
        r"^node 'Where' \(Where, .*test_jit_function.py:\d+\): the size of its result is not known[a-z ]*$"
    )
    for function in (jit(f), jit(lambda x: tf.where(x > 0))):
        for _ in range(2):
            with pytest.raises(UnsupportedError, match=message):
                function(X)
    assert count == 0


def test_what_xla_drops_is_dropped():
    @jit
    def f(x):
        tf.debugging.assert_positive(x)
        return tf.debugging.check_numerics(x, "bad") + 1

    np.testing.assert_array_equal(f(X), X + 1)


# Methods, threads, lifetimes.


def test_methods():
    class Base:
        def __init__(self, scale):
            self.scale = scale

        @jit
        def f(self, x):
            return x * self.scale

    class Derived(Base):
        @jit
        def f(self, x):
            return super().f(x) + 1

    def used(scale):
        one = Derived(scale)
        for _ in range(2):
            np.testing.assert_allclose(one.f(X), X * scale + 1, rtol=1e-6)
        return weakref.ref(one)

    gone = [used(scale) for scale in (2, 3)]
    gc.collect()
    assert [one() for one in gone] == [None, None] and Derived.f.__name__ == "f"


class Scaled:
    factor = 3.0

    def __init__(self, scale):
        self.scale = scale

    @jit
    def f(self, x):
        return x * self.scale

    @classmethod
    @jit
    def of_class(cls, x):
        return x * cls.factor


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_methods_of_copies(copied):
    one = Scaled(2.0)
    one.f(X)
    other = copied(one)
    other.scale = 5.0
    for _ in range(2):
        np.testing.assert_allclose(other.f(X), X * 5, rtol=1e-6)
        np.testing.assert_allclose(one.f(X), X * 2, rtol=1e-6)


def test_methods_of_classes():
    class Derived(Scaled):
        factor = 4.0

    for _ in range(2):
        np.testing.assert_allclose(Scaled.of_class(X), X * 3, rtol=1e-6)
        np.testing.assert_allclose(Derived.of_class(X), X * 4, rtol=1e-6)
    assert len(Scaled.of_class.traces) == 1


def test_threads():
    total, wrong = tf.Variable(0), []
    f = jit(lambda x: tf.reduce_sum(x) * 2)
    count = jit(lambda: total.assign_add(1))
    count()

    def work(size):
        for _ in range(30):
            if float(f(tf.ones(size))) != size * 2:
                wrong.append(size)

    threads = [threading.Thread(target=work, args=[size]) for size in (1, 2, 3, 1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(f.traces) == 3 and total == 1


def test_functions_go_with_their_clusters():
    f = jit(lambda x: x + 1)
    f(X)
    gone = [weakref.ref(traced.cluster) for traced in f.traces]
    del f
    gc.collect()
    assert [one() for one in gone] == [None]


def test_executables_go_with_their_functions():
    f = jit(lambda x: x * 3)
    for _ in range(3):
        f(X)  # TensorFlow keeps the kernel of the operation
    gone = [weakref.ref(one) for traced in f.traces for one in traced.cluster.executables]
    assert len(gone) == 1 and gone[0]() is not None
    del f
    gc.collect()
    assert gone[0]() is None


def test_sizes_that_depend_on_integers():
    @jit
    def f(x, n, ids):
        return x[:n] * 2, ids[n:], tf.reduce_sum(x[n:])

    x, ids = np.arange(6, dtype=np.float32), np.arange(6)
    for n, more in ((2, 0), (5, 0), (2, 1)):
        first, second, third = f(x, tf.constant(n), ids + more)
        np.testing.assert_array_equal(first, x[:n] * 2)
        np.testing.assert_array_equal(second, ids[n:] + more)
        assert third == x[n:].sum()
    (traced,) = f.traces
    assert len(traced.cluster.executables) == 2, "the values of n, not those of ids"


def test_data_of_integers_are_no_sizes():
    @jit
    def f(ids, rows):
        x = tf.one_hot(ids, 4)
        for _ in tf.range(3):
            x = tf.reshape(tf.reshape(x, [rows, -1]) + 1, [6, 4])
        return x

    for first in range(3):
        ids = (np.arange(6) + first) % 4
        np.testing.assert_array_equal(f(ids, tf.constant(3)), np.eye(4)[ids] + 3)
    (traced,) = f.traces
    assert len(traced.cluster.executables) == 1, "the value of rows, not those of ids"


def test_run_eagerly():
    f = jit(lambda x: x.numpy().sum() if hasattr(x, "numpy") else tf.reduce_sum(x))
    assert isinstance(f(X), tf.Tensor)
    tf.config.run_functions_eagerly(True)
    try:
        assert isinstance(f(X), np.float32)
    finally:
        tf.config.run_functions_eagerly(False)
    assert isinstance(f(X), tf.Tensor)


def test_not_a_number_as_an_argument_is_not_remembered():
    function = jit(lambda x, number: x * number)
    for _ in range(3):
        assert np.isnan(function(tf.ones(2), float("nan"))).all()
    assert not function._ready
