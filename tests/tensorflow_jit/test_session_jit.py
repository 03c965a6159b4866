"""Sessions with clusters: used as TensorFlow's own, with the same results."""

import inspect
import threading

import numpy as np
import pytest

from axla.core.errors import InvalidArgument, UnsupportedError

tf = pytest.importorskip("tensorflow")

import axla.tensorflow  # noqa: E402
from axla.tensorflow import Session, explain, jit_scope  # noqa: E402
from axla.tensorflow.clusters import flags  # noqa: E402
from axla.tensorflow.clusters.cluster import Cluster  # noqa: E402

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as held:
        yield held


def chain(x, name="chain"):
    with tf.name_scope(name):
        return tf.exp(tf.tanh(tf.square(x) * 0.5 + 1.0), name="result")


def chain_of(x):
    x = np.asarray(x, np.float32)
    return np.exp(np.tanh(np.square(x) * np.float32(0.5) + 1))


def near(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def inside(session, part=-1):
    """The names of the nodes in clusters, for the last choice of feeds and fetches."""
    return {each.node.name for each in session.parts[part].decisions if each.cluster}


def ops_of(session):
    return [op.type for op in session._inner.get_operations()]


# Feeds and fetches.


def test_nested_fetches_targets_and_strings():
    x = v1.placeholder(tf.float32, [None], name="x")
    y = chain(x)
    total = tf.reduce_sum(y, name="total")
    with Session() as session:
        found = session.run({"a": [y, (total,)], "b": "total:0", "c": y.op}, {"x:0": [1, 2]})
        near(found["a"][0], chain_of([1, 2]))
        near(found["a"][1][0], chain_of([1, 2]).sum())
        near(found["b"], chain_of([1, 2]).sum())
        assert found["c"] is None
        assert session.run([]) == []
        assert session.run(y.op, {x: [1]}) is None
    assert inside(session, 0) >= {"chain/result", "total"}


def test_a_fetch_inside_of_a_cluster_is_an_output_of_it():
    x = v1.placeholder(tf.float32, [None])
    y = chain(x)
    tanh = y.op.inputs[0]
    with Session() as session:
        near(session.run(y, {x: [1, 2]}), chain_of([1, 2]))
        found = session.run([tanh, y], {x: [1, 2]})
        near(found[0], np.log(chain_of([1, 2])))
        near(found[1], chain_of([1, 2]))
        assert [len(part.clusters[0].outputs) for part in session.parts] == [1, 2]


def test_a_feed_inside_of_a_cluster_splits_it():
    x = v1.placeholder(tf.float32, [None])
    y = chain(x)
    z = chain(y, "second")
    with Session() as session:
        near(session.run(z, {x: [1, 2]}), chain_of(chain_of([1, 2])))
        near(session.run(z, {y: [1, 2]}), chain_of([1, 2]))
        near(session.run([y.op.inputs[0], z], {x: [1, 2], y: [3, 4]})[1], chain_of([3, 4]))
        assert "chain/Tanh" not in inside(session, 1) and "chain/Tanh" in inside(session, 2)


def test_one_of_several_outputs_is_fed():
    x = v1.placeholder(tf.float32, [4])
    low, high = tf.split(chain(x), 2)
    y = chain(low, "low") + chain(high, "high")
    with Session() as session:
        found = session.run(y, {x: [1, 2, 3, 4], low: [0, 0]})
    near(found, chain_of([0, 0]) + chain_of(chain_of([3, 4])))


def test_a_feed_that_nothing_needs():
    x, other = v1.placeholder(tf.float32, [2]), v1.placeholder(tf.float32, [2])
    y = chain(x)
    with Session() as session:
        near(session.run(y, {x: [1, 2], other: [0, 0], y.op.inputs[0]: [0, 0]}), [1, 1])


def test_a_constant_stays_one_for_others():
    size = tf.constant([2, 3], name="size")
    x = v1.placeholder(tf.float32, [2, 3])
    y = tf.reshape(chain(x), size)
    kept = v1.py_func(lambda a: a * 2, [size], tf.int32)
    with Session() as session:
        found = session.run([y, kept, size], {x: np.ones([2, 3])})
    near(found[0], chain_of(np.ones([2, 3])))
    assert found[1].tolist() == [4, 6] and found[2].tolist() == [2, 3]


def test_errors_of_tensorflow_are_its_own():
    x = v1.placeholder(tf.float32, [2], name="x")
    y = chain(x)
    with Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="placeholder tensor 'x'"):
            session.run(y)
        with pytest.raises(ValueError, match="Cannot feed value of shape"):
            session.run(y, {x: [1, 2, 3]})
        with pytest.raises(TypeError, match="Argument `fetch` = None"):
            session.run(None)
        with tf.Graph().as_default():
            z = tf.constant(1.0)
        with pytest.raises(ValueError, match="is not an element of this graph"):
            session.run(z)
    with pytest.raises(RuntimeError, match="closed Session"):
        session.run(y, {x: [1, 2]})


def test_an_error_of_a_check_has_the_name_of_its_node():
    x = v1.placeholder(tf.float32, [2])
    check = tf.raw_ops.Assert(condition=tf.reduce_all(x > 0), data=[x], name="positive")
    with tf.control_dependencies([check]):
        y = chain(tf.identity(x))
    with Session() as session:
        near(session.run(y, {x: [1, 2]}), chain_of([1, 2]))
        with pytest.raises(tf.errors.InvalidArgumentError, match="positive") as caught:
            session.run(y, {x: [1, -2]})
        assert caught.value.op.name == "positive"


# State.


def test_variables_keep_their_values_when_the_graph_grows():
    x = v1.placeholder(tf.float32, [3])
    by_reference = v1.Variable([1.0, 1, 1], use_resource=False)
    by_handle = v1.Variable([2.0, 2, 2], use_resource=True)
    add = [v1.assign_add(by_reference, chain(x)), by_handle.assign_add(chain(x, "other"))]
    with Session() as session, v1.Session() as plain:
        for each in (session, plain):
            each.run(v1.global_variables_initializer())
            each.run(add, {x: [1, 2, 3]})
        product = tf.reduce_sum(chain(by_reference * by_handle, "later"))
        more = v1.Variable(tf.ones([3]) * 3, use_resource=False)
        for each in (session, plain):
            each.run(more.initializer)
        for fetch in ([product], [product, more], [by_reference, add, product], add):
            near_all(session.run(fetch, {x: [0, 1, 2]}), plain.run(fetch, {x: [0, 1, 2]}))
        near_all(session.run([by_reference, by_handle]), plain.run([by_reference, by_handle]))


def near_all(found, wanted):
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(wanted), strict=True):
        near(one, other)


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: v1.train.GradientDescentOptimizer(0.1), lambda: v1.train.MomentumOptimizer(0.1, 0.9),
        lambda: v1.train.AdamOptimizer(0.01), lambda: v1.train.RMSPropOptimizer(0.01),
    ],
)  # fmt: skip
def test_training(optimizer, resource):
    data = np.random.default_rng(0).normal(size=(16, 5)).astype(np.float32)
    x, y = v1.placeholder(tf.float32, [None, 5]), v1.placeholder(tf.float32, [None, 3])
    with v1.variable_scope("model", use_resource=resource):
        w = v1.get_variable("w", initializer=data[:5, :3] * 0.1)
        b = v1.get_variable("b", initializer=tf.zeros([3]))
    loss = tf.reduce_mean(v1.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=tf.matmul(x, w) + b))
    train = optimizer().minimize(loss)
    values = []
    for kind in (Session, v1.Session):
        with kind() as session:
            session.run(v1.global_variables_initializer())
            feed = {x: data, y: np.eye(3, dtype=np.float32)[np.arange(16) % 3]}
            losses = [session.run([loss, train], feed)[0] for _ in range(10)]
            values.append([*losses, *session.run([w, b])])
    near_all(*values)
    assert values[0][9] < values[0][0]


def test_a_saver(tmp_path):
    x = v1.placeholder(tf.float32, [3])
    v, w = v1.Variable([1.0, 2, 3], use_resource=False), v1.Variable([4.0, 5, 6], use_resource=True)
    add = [v1.assign_add(v, chain(x)), w.assign_add(chain(x))]
    saver = v1.train.Saver()
    with Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(add, {x: [1, 2, 3]})
        kept = session.run([v, w])
        path = saver.save(session, str(tmp_path / "model"))
        session.run(add, {x: [1, 2, 3]})
        saver.restore(session, path)
        near_all(session.run([v, w]), kept)
    with v1.Session() as session:
        saver.restore(session, path)
        near_all(session.run([v, w]), kept)


def test_random_numbers_go_on_when_other_things_are_fetched():
    v1.set_random_seed(1)
    x = v1.random_uniform([3], seed=2)
    y = chain(x)
    z = chain(tf.random.normal([3], mean=y, seed=3), "second")
    with Session() as session, v1.Session() as plain:
        for fetch in (y, y, [x, y], y, z, [z, y], z):
            near_all(session.run(fetch), plain.run(fetch))


def test_queues_and_tables_keep_their_elements():
    x = v1.placeholder(tf.float32, [2])
    queue = v1.FIFOQueue(10, [tf.float32], shapes=[[2]])
    put, take = queue.enqueue([chain(x)]), chain(queue.dequeue(), "taken")
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.0)
    insert = table.insert(tf.constant([1, 2], tf.int64), chain(x, "kept"))
    with Session() as session:
        for value in ([1, 2], [3, 4]):
            session.run([put, insert], {x: value})
        near(session.run(take), chain_of(chain_of([1, 2])))
        size = queue.size()
        found = session.run([take, size, table.lookup(tf.constant([2, 1], tf.int64))])
    near(found[0], chain_of(chain_of([3, 4])))
    near(found[2], chain_of([4, 3]))
    assert found[1] in (0, 1)  # before or after the other took one


def test_handles_of_tensors():
    x = v1.placeholder(tf.float32, [2])
    handle = v1.get_session_handle(chain(x))
    with Session() as session:
        kept = session.run(handle, {x: [1, 2]})
        near(kept.eval(), chain_of([1, 2]))
        holder, value = v1.get_session_tensor(kept.handle, tf.float32)
        near(session.run(chain(value), {holder: kept.handle}), chain_of(chain_of([1, 2])))


def test_what_was_rewritten_is_used_again():
    x = v1.placeholder(tf.float32, [2])
    v = v1.Variable([0.0, 0.0], use_resource=False)
    add = v1.assign_add(v, chain(x))
    with Session() as session:
        session.run(v.initializer)
        session.run(add, {x: [1, 2]})
        count = len(ops_of(session))
        session.run([add.op], {x: [1, 2]})
        session.run([add, v], {x: [1, 2]})
        tf.constant(1.0)  # the graph grows, what is needed does not
        session.run([v, add], {x: [1, 2]})
        assert len(ops_of(session)) == count
        assert ops_of(session).count("AxlaLaunch") == 1


# As TensorFlow's session.


def test_as_default_and_eval(graph):
    x = v1.placeholder(tf.float32, [2])
    y = chain(x)
    session = Session(graph)
    with session.as_default():
        assert v1.get_default_session() is session
        near(y.eval({x: [1, 2]}), chain_of([1, 2]))
        near(v1.get_default_session().run(y, {x: [1, 2]}), chain_of([1, 2]))
    assert session.graph is graph
    assert session.graph_def == graph.as_graph_def()
    assert [device.device_type for device in session.list_devices()] == ["CPU"]
    session.close()


def test_callables():
    x = v1.placeholder(tf.float32, [2])
    y = chain(x)
    with Session() as session:
        near(session.make_callable(y, [x])([1, 2]), chain_of([1, 2]))
        near(session.make_callable(tf.constant([1.0]) + 1)(), [2])
        metadata = v1.RunMetadata()
        options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
        session.make_callable(y, [x], accept_options=True)([1, 2], options=options, run_metadata=metadata)
        assert metadata.step_stats.dev_stats
        with pytest.raises(UnsupportedError, match="whole steps"):
            session.partial_run_setup([y], [x])


def test_a_trace_shows_the_cluster():
    x = v1.placeholder(tf.float32, [2])
    y = chain(x)
    metadata = v1.RunMetadata()
    with Session() as session:
        options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
        near(session.run(y, {x: [1, 2]}, options=options, run_metadata=metadata), chain_of([1, 2]))
    nodes = [node for device in metadata.step_stats.dev_stats for node in device.node_stats]
    assert [node for node in nodes if "AxlaLaunch" in node.timeline_label]
    assert not [node for node in nodes if "Tanh" in node.timeline_label]


def test_threads_share_a_session():
    x = v1.placeholder(tf.float32, [None])
    fetches = [chain(x, f"chain{number}") for number in range(4)]
    wrong = []

    def work(number):
        for size in range(1, 20):
            found = session.run(fetches[number], {x: np.full(size, number)})
            if not np.allclose(found, chain_of(np.full(size, number)), rtol=1e-5):
                wrong.append((number, size))

    with Session() as session:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong
    assert len(session.parts) == 4


def test_a_finalized_graph(graph):
    x = v1.placeholder(tf.float32, [2])
    y = chain(x)
    graph.finalize()
    with Session() as session:
        near(session.run(y, {x: [1, 2]}), chain_of([1, 2]))


# What is compiled.


def level(value):
    config = v1.ConfigProto()
    config.graph_options.optimizer_options.global_jit_level = value
    return config


@pytest.mark.parametrize(
    "jit, config, text, mode",
    [
        (None, None, "", "auto"),
        (None, level(v1.OptimizerOptions.ON_1), "", "auto"),
        (None, level(v1.OptimizerOptions.OFF), "", "scope"),
        (None, level(v1.OptimizerOptions.OFF), "--tf_xla_auto_jit=2", "scope"),
        (None, None, "--tf_xla_auto_jit=2", "auto"),
        (None, None, "--tf_xla_auto_jit=-1", "scope"),
        (None, level(v1.OptimizerOptions.ON_2), "--tf_xla_auto_jit=-1", "auto"),
        (None, None, "--tf_xla_auto_jit=1 --tf_xla_cpu_global_jit=false", "scope"),
        ("off", level(v1.OptimizerOptions.ON_2), "", "off"),
        ("scope", None, "--tf_xla_auto_jit=2", "scope"),
    ],
)
def test_what_says_the_mode(jit, config, text, mode, monkeypatch):
    monkeypatch.setattr(flags, "_taken", {})
    monkeypatch.setenv(flags.VARIABLE, text)
    before = config.SerializeToString() if config else b""
    x = v1.placeholder(tf.float32, [2])
    y = chain(x)
    with Session(jit=jit, config=config) as session:
        assert session.mode == mode
        near(session.run(y, {x: [1, 2]}), chain_of([1, 2]))
        assert ("AxlaLaunch" in ops_of(session)) == (mode == "auto")
        options = session._config.graph_options.optimizer_options
        assert options.global_jit_level == options.OFF
    assert (config.SerializeToString() if config else b"") == before


def test_wrong_arguments():
    with pytest.raises(InvalidArgument, match="jit is 'on'; there are auto, scope, off"):
        Session(jit="on")
    with pytest.raises(InvalidArgument, match="clusters run in this process"):
        Session(target="grpc://localhost:1")
    with pytest.raises(InvalidArgument, match="graph is a str, wanted a tf.Graph"):
        Session(graph="graph")


def test_scopes():
    assert jit_scope is tf.xla.experimental.jit_scope
    x = v1.placeholder(tf.float32, [2])
    with jit_scope():
        y = chain(x, "inside")
        with jit_scope(compile_ops=False):
            z = chain(y, "not")
    w = chain(z, "outside")
    with Session(jit="scope") as session:
        near(session.run(w, {x: [1, 2]}), chain_of(chain_of(chain_of([1, 2]))))
        names = inside(session)
    assert "inside/result" in names and not {"not/result", "outside/result"} & names
    reasons = {each.node.name: each.reason for each in session.parts[-1].decisions}
    assert reasons["outside/result"] == "it is in no scope"
    assert reasons["not/result"] == "_XlaCompile is false"


def test_scopes_are_clusters_of_their_own():
    x = v1.placeholder(tf.float32, [2])
    with jit_scope():
        y = chain(x, "first")
    with jit_scope():
        z = chain(y, "second")
    with Session(jit="scope") as session:
        near(session.run(z, {x: [1, 2]}), chain_of(chain_of([1, 2])))
        assert len(session.parts[-1].clusters) == 2


DEVICE = "/job:localhost/replica:0/task:0/device:XLA_CPU:0"


@pytest.mark.parametrize("mode", ["auto", "scope", "off"])
def test_xla_devices(mode):
    x = v1.placeholder(tf.float32, [2])
    with tf.device(DEVICE):
        v = v1.Variable([1.0, 2.0])
        y = tf.add(x, x, name="placed") + v
    z = chain(y)
    with Session(jit=mode) as session:
        session.run(v1.global_variables_initializer())
        near(session.run(z, {x: [1, 2]}), chain_of([3, 6]))
        assert inside(session) >= {"placed"}
        assert ("chain/result" in inside(session)) == (mode == "auto")
        assert not [op.name for op in session._inner.get_operations() if "XLA" in op.device]


def test_what_cannot_be_compiled_for_an_xla_device():
    x = v1.placeholder(tf.float32, [2])
    with tf.device("/device:XLA_CPU:0"):
        y = tf.strings.as_string(x, name="text")
    with tf.device("/device:XLA_GPU:0"):
        z = tf.add(x, x, name="placed")
    with Session() as session:
        with pytest.raises(UnsupportedError, match=r"node 'text' \(AsString.*\): it must be compiled"):
            session.run(y, {x: [1, 2]})
        with pytest.raises(UnsupportedError, match=r"node 'placed' \(AddV2.*\): it is placed on XLA_GPU:0"):
            session.run(z, {x: [1, 2]})
        near(session.run(x + 1, {x: [1, 2]}), [2, 3])


def test_a_session_is_closed_while_a_cluster_is_compiled(monkeypatch):
    begun, closes, made = threading.Event(), threading.Event(), Cluster._compiled

    def compiled(cluster, arrays):
        begun.set()
        closes.wait()
        return made(cluster, arrays)

    monkeypatch.setattr(Cluster, "_compiled", compiled)
    x = v1.placeholder(tf.float32, [2])
    y, ended = chain(x), []
    session = Session()

    def run():
        try:
            near(session.run(y, {x: [1, 2]}), chain_of([1, 2]))
            ended.append("the session was closed later")
        except tf.errors.CancelledError:
            ended.append("cancelled")

    threads = [threading.Thread(target=call) for call in (run, session.close)]
    threads[0].start()
    begun.wait()
    threads[1].start()
    closes.set()
    for thread in threads:
        thread.join()
    assert len(ended) == 1


def test_must_compile(graph):
    x = v1.placeholder(tf.float32, [2])
    with graph._attr_scope({"_XlaMustCompile": v1.AttrValue(b=True)}):
        y = tf.add(x, x)
        z = tf.strings.as_string(x, name="text")
    with Session(jit="scope") as session:
        near(session.run(y, {x: [1, 2]}), [2, 4])
        assert len(session.parts[-1].clusters) == 1
        with pytest.raises(UnsupportedError, match="node 'text'"):
            session.run(z, {x: [1, 2]})


def test_small_clusters_are_left(monkeypatch):
    x = v1.placeholder(tf.float32, [2])
    y = tf.tanh(x + x)
    with Session() as session:
        near(session.run(y, {x: [1, 2]}), np.tanh([2, 4]))
        assert not session.parts[-1].clusters
    monkeypatch.setattr(flags, "_taken", {"tf_xla_min_cluster_size": "2"})
    with Session() as session:
        near(session.run(y, {x: [1, 2]}), np.tanh([2, 4]))
        assert len(session.parts[-1].clusters) == 1


def test_colocation():
    x = v1.placeholder(tf.float32, [2])
    y = chain(x)
    with v1.colocate_with(y):
        z = v1.py_func(lambda a: a + 1, [y], tf.float32)
    v = v1.Variable([0.0, 0.0], use_resource=False)
    with v1.colocate_with(v):
        w = v1.py_func(lambda a: a + 1, [v + z], tf.float32)
    with Session() as session:
        session.run(v.initializer)
        near(session.run(w, {x: [1, 2]}), chain_of([1, 2]) + 2)


def test_clusters_of_equal_names_in_the_graph():
    x = v1.placeholder(tf.float32, [2], name="cluster_0")
    y = chain(v1.py_func(lambda a: a, [chain(x)], tf.float32), "second")
    z = tf.identity(y, name="cluster_1")
    with Session() as session:
        near(session.run(z, {x: [1, 2]}), chain_of(chain_of([1, 2])))
        assert len(session.parts[-1].clusters) == 2


# What the flags ask for.


def test_dumps_and_pictures(monkeypatch, tmp_path, capfd):
    text = {"tf_xla_clustering_debug": None, "xla_generate_hlo_graph": ".*"}
    monkeypatch.setattr(flags, "_taken", text)
    monkeypatch.setenv("TF_DUMP_GRAPH_PREFIX", str(tmp_path))
    monkeypatch.setattr(flags.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(flags, "_dumps", flags.Counter())
    x = v1.placeholder(tf.float32, [2])
    y = chain(x)
    with Session() as session:
        session.run(y, {x: [1, 2]})
    assert 'op: "Tanh"' in (tmp_path / "before_mark_for_compilation.pbtxt").read_text()
    after = (tmp_path / "build_xla_ops.pbtxt").read_text()
    assert 'op: "AxlaLaunch"' in after and 'op: "Tanh"' not in after
    shown = capfd.readouterr().err
    assert "computation cluster_0[_XlaCompiledKernel=true,_XlaNumConstantArgs=0].v" in shown
    (picture,) = tmp_path.glob("hlo_graph_*.dot")
    assert str(picture) in shown and "tanh" in picture.read_text()


def test_names_that_are_not_there():
    assert axla.tensorflow.Session is Session
    with pytest.raises(AttributeError, match="has no attribute 'Sessions'"):
        _ = axla.tensorflow.Sessions


def test_what_xla_does_not_check(graph):
    x = v1.placeholder(tf.int32, [None])
    quotient = (x * 3 + 1) // x - 2
    taken = tf.gather(tf.constant([1, 2, 3]) * x[:1], x) * 2 + 1
    with Session(graph=graph, jit="auto") as session:
        assert session.run(quotient, {x: [0, 1]})[1] == 2
        assert session.run(taken, {x: [1, 9]})[0] == 5


def test_an_error_of_a_cluster_names_the_operation_and_its_line():
    x, z = v1.placeholder(tf.float32), v1.placeholder(tf.float32)
    y = chain(tf.matmul(x, z, name="prod"))
    line = inspect.currentframe().f_lineno - 1
    with Session() as session, pytest.raises(tf.errors.InvalidArgumentError) as caught:
        session.run(y, {x: np.ones((2, 3)), z: np.ones((2, 3))})
    assert caught.value.op is y.graph.get_operation_by_name("prod")
    assert f"node 'prod' (BatchMatMulV2), {__file__}:{line}: " in caught.value.message


def test_a_graph_that_grows_leaves_one_part_for_each_choice():
    x = v1.placeholder(tf.float32, [None])
    y = chain(x)
    with Session() as session:
        for number in range(5):
            tf.constant(number)
            near(session.run(y, {x: [1, 2]}), chain_of([1, 2]))
        assert len(session.parts) == len(session._steps) == 1


def test_a_session_that_is_off_says_so():
    x = v1.placeholder(tf.float32, [None])
    y = chain(x)
    with Session(jit="off") as session:
        session.run(y, {x: [1, 2]})
        assert {each.reason for each in explain(session).outside} == {"clusters are switched off"}
