"""Graphs with operations that no cluster takes: results are TensorFlow's, clusters are as the rules say, and
each operation that is left to TensorFlow has a reason.
"""

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from axla.tensorflow import explain  # noqa: E402
from axla.tensorflow.clusters.session import Session  # noqa: E402

v1 = tf.compat.v1
GRAPHS = {}


@dataclass
class Graph:
    """`fetches` for each of `feeds`; `left`: what operations are in no cluster, and why; `inside`: names (of
    nodes, or of nodes in functions) that must be in one.
    """

    fetches: Any
    feeds: list[dict]
    left: dict[str, str]
    inside: list[str]
    init: list = field(default_factory=list)


def graph(function):
    GRAPHS[function.__name__] = function
    return function


def matrix(*dims, seed=0):
    return np.random.default_rng(seed).normal(size=dims).astype(np.float32)


def numbers(name="x", dims=(None, 4)):
    return v1.placeholder(tf.float32, dims, name=name)


def computed(value, name="before"):
    """Some operations that make one cluster."""
    with tf.name_scope(name):
        value = tf.tanh(tf.square(value, name="square") * 0.5 + 1.0, name="tanh")
        return tf.identity(tf.exp(value - 0.25, name="exp") * 2.0, name="result")


FEEDS = [matrix(3, 4), matrix(5, 4, seed=1), matrix(3, 4, seed=2)]
BOTH = ["before/tanh", "before/exp", "after/tanh", "after/exp"]
NONE = "axla has no such operation"


@graph
def strings_at_the_end():
    x = numbers()
    y = computed(x)
    text = tf.strings.as_string(y, precision=3)
    return Graph([text, y], [{x: each} for each in FEEDS], {"AsString": NONE}, BOTH[:2])


@graph
def strings_in_the_middle():
    x = numbers()
    text = tf.strings.as_string(computed(x), precision=2)
    y = computed(tf.strings.to_number(text), "after")
    left = {"AsString": NONE, "StringToNumber": NONE}
    return Graph(y, [{x: each} for each in FEEDS], left, BOTH)


@graph
def strings_at_the_beginning():
    x = v1.placeholder(tf.string, [None])
    y = computed(tf.strings.to_number(tf.strings.split(x, ",").to_tensor(), tf.float32))
    left = {"StringSplitV2": NONE, "StringToNumber": NONE}
    return Graph(y, [{x: ["1,2", "3,4"]}, {x: ["1,2,3"]}], left, BOTH[:2])


@graph
def string_constants_are_joined():
    x = numbers()
    y = computed(x)
    text = tf.strings.join(["sum ", tf.strings.as_string(tf.reduce_sum(y), precision=1)])
    left = {"StringJoin": NONE, "AsString": NONE}
    return Graph([text, tf.strings.length(text)], [{x: FEEDS[0]}], left, [*BOTH[:2], "Sum"])


@graph
def table_in_the_middle():
    x = v1.placeholder(tf.int64, [None])
    keys = tf.constant([0, 2, 4, 6], tf.int64)
    init = tf.lookup.KeyValueTensorInitializer(keys, tf.constant([1.5, 2.5, 3.5, 4.5]))
    table = tf.lookup.StaticHashTable(init, -1.0)
    keys = tf.cast(tf.cast(x, tf.float32) * 2.0, tf.int64, name="keys")
    y = computed(table.lookup(keys), "after")
    left = {"LookupTableFindV2": f"{NONE}|resource", "HashTableV2": f"{NONE}|resource"}
    inside = [*BOTH[2:]]
    return Graph(y, [{x: [0, 1, 3]}, {x: [9]}], left, inside, [v1.tables_initializer()])


@graph
def table_of_strings():
    x = v1.placeholder(tf.string, [None])
    init = tf.lookup.KeyValueTensorInitializer(["a", "b"], [1.0, 2.0])
    table = tf.lookup.StaticHashTable(init, 0.0)
    y = computed(table.lookup(x))
    left = {"LookupTableFindV2": ".", "HashTableV2": "."}
    return Graph(y, [{x: ["a", "c", "b"]}], left, BOTH[:2], [v1.tables_initializer()])


@graph
def mutable_table():
    x = numbers(dims=[2])
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, -1.0)
    put = table.insert(tf.constant([1, 2], tf.int64), computed(x))
    with tf.control_dependencies([put]):
        y = computed(table.lookup(tf.constant([2, 1, 7], tf.int64)), "after")
    left = {"LookupTableInsertV2": ".", "LookupTableFindV2": "."}
    return Graph(y, [{x: [1, 2]}, {x: [3, 4]}], left, BOTH)


@graph
def python_function_in_the_middle():
    x = numbers()
    y = v1.py_func(lambda a: a[::-1].copy(), [computed(x)], tf.float32)
    y = computed(tf.ensure_shape(y, [None, 4]), "after")
    return Graph(y, [{x: each} for each in FEEDS], {"PyFunc": NONE}, BOTH)


@graph
def stateful_python_function():
    x, calls = numbers(), []
    y = v1.py_func(lambda a: calls.append(1) or a + 1, [computed(x)], tf.float32)
    y.set_shape([None, 4])
    y = computed(y, "after")
    return Graph(y, [{x: each} for each in FEEDS], {"PyFunc": NONE}, BOTH)


@graph
def eager_python_function():
    x = numbers()
    y = tf.py_function(lambda a: tf.reverse(a, [1]), [computed(x)], tf.float32)
    y = computed(y, "after")
    return Graph(y, [{x: FEEDS[0]}], {"EagerPyFunc": NONE}, BOTH)


@graph
def summaries():
    x = numbers()
    y = computed(x)
    v1.summary.scalar("mean", tf.round(tf.reduce_mean(y)))
    v1.summary.histogram("all", tf.round(y))
    left = {"ScalarSummary": NONE, "HistogramSummary": NONE, "MergeSummary": NONE}
    return Graph([v1.summary.merge_all(), y], [{x: FEEDS[0]}], left, BOTH[:2])


@graph
def unique_in_the_middle():
    x = v1.placeholder(tf.float32, [None])
    y, index = tf.unique(tf.round(computed(x)))
    left = {"Unique": "depend on values"}
    return Graph([computed(y, "after"), index], [{x: [1, 1, 2]}, {x: [1, 2, 3, 1]}], left, BOTH)


@graph
def where_finds_places():
    x = numbers()
    y = computed(x)
    places = tf.where(y > 3.5)
    z = computed(tf.gather_nd(y, places), "after")
    return Graph([z, places], [{x: each} for each in FEEDS], {"Where": "depend on values"}, BOTH)


@graph
def boolean_mask():
    x = numbers()
    y = computed(x)
    z = computed(tf.boolean_mask(y, tf.reduce_sum(y, 1) > 15.0), "after")
    return Graph(z, [{x: each} for each in FEEDS], {"Where": "depend on values"}, BOTH)


@graph
def dynamic_partition():
    x = numbers()
    y = computed(x)
    low, high = tf.dynamic_partition(y, tf.cast(y > 3.5, tf.int32), 2)
    left = {"DynamicPartition": "depend on values"}
    return Graph([computed(low, "after"), high], [{x: each} for each in FEEDS], left, BOTH)


@graph
def sizes_that_are_fed():
    x, n = numbers(), v1.placeholder(tf.int32, [], name="n")
    y = tf.reshape(tf.tile(computed(x), [n, 1]), [-1, 2 * n])
    y = v1.py_func(lambda a: a * 2, [y], tf.float32)
    feeds = [{x: FEEDS[0], n: 1}, {x: FEEDS[0], n: 2}, {x: FEEDS[1], n: 2}]
    return Graph(y, feeds, {"PyFunc": NONE}, [*BOTH[:2], "Reshape"])


@graph
def sizes_from_python():
    x = numbers()
    n = v1.py_func(lambda a: np.int32(len(a) + 1), [x], tf.int32)
    y = computed(x)
    y = computed(tf.pad(y, [[0, n], [0, 0]]), "after")
    return Graph(y, [{x: each} for each in FEEDS], {"PyFunc": NONE}, ["after/tanh"])


@graph
def queue_between():
    x = numbers(dims=[3, 4])
    queue = v1.FIFOQueue(4, [tf.float32], shapes=[[3, 4]])
    put = queue.enqueue([computed(x)])
    with tf.control_dependencies([put]):
        y = computed(queue.dequeue(), "after")
    left = {"QueueEnqueueV2": ".", "QueueDequeueV2": ".", "FIFOQueueV2": "."}
    return Graph([y, queue.size()], [{x: FEEDS[0]}, {x: FEEDS[2]}], left, BOTH)


@graph
def dataset_at_the_beginning():
    data = tf.data.Dataset.from_tensor_slices(FEEDS[0]).map(lambda a: computed(a, "mapped")).batch(2)
    iterator = v1.data.make_initializable_iterator(data)
    y = computed(iterator.get_next())
    left = {"IteratorGetNext": ".", "IteratorV2": "."}
    return Graph(y, [{}, {}], left, BOTH[:2], [iterator.initializer])


@graph
def prints_and_checks():
    x = numbers()
    y = computed(x)
    with tf.control_dependencies([v1.Assert(tf.reduce_all(y > 0.0), [y]), tf.print("seen")]):
        z = computed(tf.identity(y), "after")
    left = {"Assert": "checks", "PrintV2": "."}
    return Graph(z, [{x: each} for each in FEEDS], left, BOTH)


@graph
def variables_by_reference():
    x = numbers(dims=[3, 4])
    v = v1.Variable(tf.zeros([3, 4]), use_resource=False)
    add = v1.assign_add(v, computed(x))
    y = computed(add, "after")
    left = {"AssignAdd": "reference", "VariableV2": "reference"}
    return Graph([y, v], [{x: FEEDS[0]}, {x: FEEDS[2]}], left, BOTH, [v.initializer])


@graph
def sparse_tensors():
    x = v1.sparse_placeholder(tf.float32)
    y = computed(tf.sparse.to_dense(x))
    z = tf.sparse.from_dense(tf.nn.relu(y - 2.0))
    value = v1.SparseTensorValue([[0, 1], [1, 0]], [1.0, 2.0], [2, 3])
    left = {"Placeholder": ".", "Where": "depend on values"}
    return Graph([y, z], [{x: value}], left, ["SparseToDense", *BOTH[:2]])


@graph
def old_loop():
    x = numbers(dims=[3, 4])
    v1.disable_control_flow_v2()

    def body(i, a):
        a = v1.py_func(lambda a: a - 1.0, [computed(a, "inside")], tf.float32)
        return i + 1, tf.ensure_shape(a, [3, 4])

    _, y = v1.while_loop(lambda i, a: i < 3, body, [0, computed(x)])
    left = {"PyFunc": NONE, "Enter": "control flow", "Merge": "control flow", "Exit": "control flow"}
    inside = [*BOTH, "while/inside/tanh"]
    return Graph(computed(y, "after"), [{x: FEEDS[0]}, {x: FEEDS[2]}], left, inside)


@graph
def old_branch():
    x = numbers()
    v1.disable_control_flow_v2()
    y = computed(x)

    def first():
        text = tf.strings.as_string(computed(y, "first"), precision=1)
        return tf.strings.to_number(text)

    z = v1.cond(tf.reduce_sum(x) > 0.0, first, lambda: computed(y, "second"))
    left = {"AsString": NONE, "Switch": "control flow", "Merge": "control flow"}
    inside = [*BOTH, "cond/first/tanh", "cond/second/tanh"]
    return Graph(computed(z, "after"), [{x: FEEDS[0]}, {x: -abs(FEEDS[0])}, {x: abs(FEEDS[1])}], left, inside)


@graph
def branch_in_a_loop():
    x = numbers(dims=[3, 4])
    v1.disable_control_flow_v2()

    def body(i, a):
        def odd():
            return computed(tf.ensure_shape(v1.py_func(np.negative, [a], tf.float32), [3, 4]), "odd")

        return i + 1, v1.cond(tf.equal(i % 2, 1), odd, lambda: computed(a, "even"))

    _, y = v1.while_loop(lambda i, a: i < 4, body, [0, x])
    left = {"PyFunc": NONE, "Merge": "control flow"}
    return Graph(y, [{x: FEEDS[0]}], left, ["while/cond/odd/tanh", "while/cond/even/tanh"])


@graph
def new_loop():
    x = numbers(dims=[3, 4])
    v1.enable_control_flow_v2()

    def body(i, a):
        a = tf.numpy_function(lambda a: a - 1.0, [computed(a, "inside")], tf.float32)
        return i + 1, tf.ensure_shape(a, [3, 4])

    _, y = tf.while_loop(lambda i, a: i < 3, body, [0, computed(x)])
    left = {"PyFunc": NONE, "While": "PyFunc"}
    return Graph(computed(y, "after"), [{x: FEEDS[0]}, {x: FEEDS[2]}], left, [*BOTH, "*inside/tanh"])


@graph
def new_branch():
    x = numbers()
    v1.enable_control_flow_v2()
    y = computed(x)

    def first():
        return tf.strings.to_number(tf.strings.as_string(computed(y, "first"), precision=1))

    z = tf.cond(tf.reduce_sum(x) > 0.0, first, lambda: computed(y, "second"))
    left = {"AsString": NONE, "If|StatelessIf": "AsString"}
    inside = [*BOTH, "*first/tanh", "*second/tanh"]
    return Graph(computed(z, "after"), [{x: FEEDS[0]}, {x: -abs(FEEDS[0])}], left, inside)


@graph
def one_of_three_branches():
    x, index = numbers(), v1.placeholder(tf.int32, [])
    v1.enable_control_flow_v2()

    def first():
        return tf.strings.to_number(tf.strings.as_string(computed(x, "first"), precision=1))

    branches = [first, lambda: computed(x, "second"), lambda: x]
    y = computed(tf.switch_case(index, branches), "after")
    feeds = [{x: FEEDS[0], index: number} for number in range(3)]
    return Graph(y, feeds, {"AsString": NONE}, ["*first/tanh", "*second/tanh", *BOTH[2:]])


@graph
def called_function():
    x = numbers()

    @tf.function
    def called(a):
        y = tf.unique(tf.reshape(computed(a, "first"), [-1]))[0]
        return computed(y, "second")

    y = computed(called(x), "after")
    left = {"Unique": "depend on values", "PartitionedCall|StatefulPartitionedCall": "Unique"}
    return Graph(y, [{x: each} for each in FEEDS], left, ["*first/tanh", "*second/tanh", *BOTH[2:]])


@graph
def function_with_a_loop():
    x = numbers(dims=[3, 4])

    @tf.function
    def called(a):
        for _ in tf.range(3):
            a = tf.numpy_function(np.negative, [computed(a, "inside")], tf.float32)
            a = tf.ensure_shape(a, [3, 4])
        return a

    left = {"PyFunc": NONE, "While|StatelessWhile": "PyFunc"}
    return Graph(computed(called(x), "after"), [{x: FEEDS[0]}], left, ["*inside/tanh", *BOTH[2:]])


@graph
def function_with_a_variable():
    x = numbers(dims=[3, 4])
    v = v1.Variable(tf.zeros([3, 4]), use_resource=True)

    @tf.function
    def called(a):
        v.assign_add(computed(a, "first"))
        return computed(v.read_value(), "second")

    y = called(x)
    left = {"AssignAddVariableOp": "resource", "StatefulPartitionedCall": "resource"}
    inside = ["*first/tanh", "*second/tanh"]
    return Graph([y], [{x: FEEDS[0]}, {x: FEEDS[2]}], left, inside, [v.initializer])


@graph
def gradients_of_an_old_loop():
    x = numbers(dims=[3, 4])
    v1.disable_control_flow_v2()
    _, y = v1.while_loop(
        lambda i, a: i < 3, lambda i, a: (i + 1, tf.sin(computed(a, "inside"))), [0, x], parallel_iterations=1
    )
    (z,) = tf.gradients(tf.reduce_sum(tf.square(y)), x)
    left = {"StackPushV2": ".", "StackPopV2": "."}
    return Graph([y, z], [{x: FEEDS[0]}], left, ["while/inside/tanh"])


@graph
def large_numbers_of_text():
    x = numbers()
    y = computed(x)
    codes = tf.io.decode_raw(tf.strings.as_string(tf.reduce_sum(y, 1), precision=2, width=8), tf.uint8)
    z = computed(tf.cast(codes, tf.float32) / 100.0, "after")
    return Graph(z, [{x: each} for each in FEEDS], {"AsString": NONE, "DecodeRaw": NONE}, BOTH)


def _values(session, made):
    session.run(made.init)
    return [session.run(made.fetches, feed) for feed in made.feeds]


def _assert_same(found, wanted):
    assert type(found) is type(wanted)
    if isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted)
        for pair in zip(found, wanted, strict=True):
            _assert_same(*pair)
    elif getattr(wanted, "dtype", None) == np.float32:
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-6)
    else:
        np.testing.assert_array_equal(found, wanted)


@pytest.fixture(autouse=True)
def control_flow():
    was = v1.control_flow_v2_enabled()
    yield
    (v1.enable_control_flow_v2 if was else v1.disable_control_flow_v2)()


@pytest.mark.parametrize("name", GRAPHS)
def test_results_clusters_and_reasons(name, monkeypatch):
    with tf.Graph().as_default() as held:
        made = GRAPHS[name]()
    with v1.Session(graph=held) as session:
        wanted = _values(session, made)
    with Session(held, jit="auto") as session:
        found = _values(session, made)
        decisions = [decision for part in session.parts for decision in part.decisions]
        assert all(cluster.executables for cluster in session.parts[-1].clusters), "each cluster has run"
        report = str(explain(session))
        assert all(f"{cluster.name}: " in report for cluster in session.parts[-1].clusters)
    _assert_same(found, wanted)
    for ops, reason in made.left.items():
        of = [each for each in decisions if re.fullmatch(ops, each.node.op)]
        assert of, f"the graph has no {ops}"
        assert not [each for each in of if each.cluster or not re.search(reason, each.reason)]
    for wanted_name in made.inside:
        of = [each for each in decisions if _is_called(wanted_name, each)]
        assert of, f"the graph has no {wanted_name}"
        assert all(each.cluster for each in of), [each.reason for each in of]
    assert all(bool(each.cluster) != bool(each.reason) for each in decisions)


def _is_called(name, decision):
    node = decision.node.name
    return bool(decision.function) and node.endswith(name[1:]) if name[0] == "*" else node == name


def test_there_are_thirty():
    assert len(GRAPHS) >= 30


# What is seen only when shapes are known.


def grown(x):
    shapes = [tf.TensorShape([]), tf.TensorShape([None])]

    def body(i, a):
        return i + 1, tf.concat([a, computed(a, "inside")], 0)

    return tf.while_loop(lambda i, a: i < 3, body, [0, x], shape_invariants=shapes)[1]


DYNAMIC = {
    "a loop that grows": (grown, "While", "wanted equal shapes"),
    "branches of different shapes": (
        lambda x: tf.cond(x[0] > 2.0, lambda: x, lambda: tf.concat([x, computed(x, "inside")], 0)),
        "If", "result 0 of a conditional is",
    ),
    "a range of a computed length": (
        lambda x: tf.cast(tf.range(tf.cast(tf.reduce_sum(x), tf.int32)), tf.float32), "Range",
        "must be constant",
    ),
    "the largest of a computed number": (
        lambda x: tf.nn.top_k(x, k=tf.cast(x[1], tf.int32))[0], "TopK", "must be constant",
    ),
}  # fmt: skip


def _dynamic(name, x):
    make, op, reason = DYNAMIC[name]
    v1.enable_control_flow_v2()
    return computed(make(computed(x)), "after"), op, reason


@pytest.mark.parametrize("name", DYNAMIC)
def test_what_cannot_be_compiled_for_its_shapes_is_left_to_tensorflow(name):
    with tf.Graph().as_default() as held:
        x = v1.placeholder(tf.float32, [None])
        y, op, reason = _dynamic(name, x)
        v = v1.Variable(0.0, use_resource=True)
        add = v.assign_add(tf.reduce_sum(y))
    feeds = [np.arange(1, 8), np.arange(1, 8), np.arange(2, 8)]
    with v1.Session(graph=held) as session:
        session.run(v.initializer)
        wanted = [session.run([y, add], {x: each}) for each in feeds]
    found, parts = [], []
    with Session(held, jit="auto") as session:
        session.run(v.initializer)
        for each in feeds:
            found.append(session.run([y, add], {x: each}))
            parts.append(session.parts[-1])
    _assert_same(found, wanted)
    first, second, third = parts
    assert third is second
    before = [each for each in first.decisions if each.node.op.removeprefix("Stateless").startswith(op)]
    assert before[0].cluster, "it can be compiled, as far as is known without shapes"
    after = next(each for each in second.decisions if each.node.name == before[0].node.name)
    assert not after.cluster and reason in after.reason
    inside = {each.node.name for each in second.decisions if each.cluster}
    assert inside >= {"before/tanh", "after/tanh"}
    if op in ("While", "If"):
        assert [name for name in inside if name.endswith("inside/tanh")], "what it calls has clusters now"


def test_an_error_of_an_operation_that_is_left_to_tensorflow():
    with tf.Graph().as_default() as held:
        x = v1.placeholder(tf.float32, [None])
        y = computed(tf.nn.top_k(computed(x), k=tf.cast(x[0], tf.int32))[0], "after")
    with Session(held) as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="at least k columns. Had 2"):
            session.run(y, {x: [9.0, 1.0]})
        assert len(session.run(y, {x: [2.0, 1.0, 3.0]})) == 2


def test_what_must_be_compiled_has_no_fallback():
    with tf.Graph().as_default() as held:
        x = v1.placeholder(tf.float32, [None])
        with tf.device("/device:XLA_CPU:0"):
            y = tf.cast(tf.range(tf.cast(tf.reduce_sum(x), tf.int32)), tf.float32)
    with Session(held) as session:
        for _ in range(2):
            with pytest.raises(tf.errors.UnimplementedError, match=r"node 'range' \(Range.*must be constant"):
                session.run(y, {x: [1.0, 2.0]})
