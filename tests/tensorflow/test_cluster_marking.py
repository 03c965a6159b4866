"""Which nodes may be in a cluster, and why others may not."""

from __future__ import annotations

import re

import pytest

from axla.core.errors import UnsupportedError, VerifyError
from axla.tensorflow.clusters.marking import ConditionSide, FrameGroup, marked
from axla.tensorflow.graph import Output, graph_of
from cluster_graphs import definition, function, graph, node


def reasons(text: str, *functions: dict, mode: str = "auto", **more) -> dict[str, str]:
    return {name: mark.reason for name, mark in marked(graph(text, *functions, **more), mode).items()}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("n = Abs x", ""),
        ("n = Identity x", ""),
        ("n = Const", ""),
        ("n = Other x", "axla has no such operation"),
        ("n = Spence x", "there is no such function in XLA"),
        ("n = Const dtype=DT_STRING", "it takes or returns strings"),
        ("n = Identity s T=DT_STRING", "it takes or returns strings"),
        ("n = VarHandleOp shape=", "it takes or returns resources"),
        ("n = ReadVariableOp h", "it takes or returns resources"),
        ("n = TensorListStack l i element_dtype=DT_FLOAT", "it takes or returns variants"),
        ("n = PlaceholderWithDefault x", "it is an argument or a result"),
        ("n = _Retval x index=0", "it is an argument or a result"),
        ("n = Switch x b", "it is control flow of TensorFlow 1"),
        ("n = Merge x x", "it is control flow of TensorFlow 1"),
        ("n = Enter x frame_name=f", "it is control flow of TensorFlow 1"),
        ("n = LoopCond b", "it is control flow of TensorFlow 1"),
        ("n = ControlTrigger ^x", "it is control flow of TensorFlow 1"),
        ("n = Variable shape=", "it takes or returns a reference to a variable"),
        ("n = Assign v x", "it takes or returns a reference to a variable"),
        ("n = Identity v", "it takes or returns a reference to a variable"),
        ("n = Abs v", ""),
        ("n = RandomUniform i T=DT_INT32", "its results differ from run to run"),
        ("n = StatelessRandomUniform i k T=DT_INT32 Tseed=DT_INT64", ""),
        ("n = CheckNumerics x", "clusters leave out what it checks"),
        ("n = Assert b x T=[DT_FLOAT]", "clusters leave out what it checks"),
        ("n = Where b T=DT_BOOL", "the sizes of its results depend on values"),
        ("n = Unique x out_idx=DT_INT32", "the sizes of its results depend on values"),
        ("n = Svd x", "XLA is slower or less exact than TensorFlow"),
        ("n = NoOp ^x", "nothing waits for it"),
        ("n = Abs x @/device:GPU:0", "it is placed on GPU:0"),
        ("n = Abs x @/job:worker/task:1", "it is placed on /job:worker/task:1"),
        ("n = Abs x _XlaCompile=false", "_XlaCompile is false"),
    ],
)
def test_reasons(line: str, reason: str):
    more = {"shape": {"shape": {}}, "num_elements": {"i": -1}}
    text = """
        x = Placeholder
        b = Flag
        s = Placeholder dtype=DT_STRING
        h = Placeholder dtype=DT_RESOURCE
        l = Placeholder dtype=DT_VARIANT
        i = Placeholder dtype=DT_INT32
        k = Placeholder dtype=DT_INT64
        v = Variable shape=
    """
    nodes = [node(each) for each in text.strip().splitlines()] + [node(line)]
    for each in nodes:
        each["attr"] = [entry for entry in each["attr"] if entry["key"] not in more]
        each["attr"] += [{"key": key, "value": value} for key, value in more.items()]
    if line.startswith("n = Const dtype"):
        value = {"tensor": {"dtype": "DT_STRING", "tensor_shape": {}}}
        nodes[-1]["attr"] = [entry for entry in nodes[-1]["attr"] if entry["key"] != "value"]
        nodes[-1]["attr"].append({"key": "value", "value": value})
    found = graph_of({"node": nodes}, definitions={})
    assert not any(each.fault for each in found.nodes.values())
    assert marked(found, "auto")["n"].reason == reason


def test_slices_are_compiled_where_their_sizes_follow_from_shapes():
    text = """
        x = Placeholder
        i = Placeholder dtype=DT_INT32
        b = Const dtype=DT_INT32
        s = Shape x
        e = Add s b T=DT_INT32
        f = Add s i T=DT_INT32
        static = StridedSlice x b e b Index=DT_INT32
        other = StridedSlice x b f b Index=DT_INT32
        must = StridedSlice x b f b Index=DT_INT32 @/device:XLA_CPU:0
    """
    nodes = [node(line) for line in text.splitlines() if line.strip()]
    value = {"key": "value", "value": {"tensor": {"dtype": "DT_INT32", "tensor_shape": {}}}}
    nodes[2]["attr"] = [value if entry["key"] == "value" else entry for entry in nodes[2]["attr"]]
    found = {name: mark.reason for name, mark in marked(graph_of({"node": nodes}), "auto").items()}
    assert found["static"] == found["must"] == ""
    assert found["other"] == "the sizes of its results depend on values"


def test_faults_are_reasons():
    text = """
        x = Placeholder
        i = Placeholder dtype=DT_INT32
        a = Mul x i
        b = ArgMax x x Tidx=DT_STRING
        c = Cast x SrcT=DT_FLOAT DstT=DT_STRING
        d = Abs c
        e = MatMul x x transpose_a=DT_FLOAT
        f = Abs e
    """
    found = reasons(text)
    assert found["a"] == "input 1 (y) is DT_INT32, wanted DT_FLOAT"
    assert found["b"] == "input 1 (dimension) is DT_FLOAT, wanted DT_STRING"
    assert found["c"] == "it takes or returns strings"
    assert found["e"] == "attribute 'transpose_a' is of kind bool, found type"
    assert found["f"] == ""  # what comes out of a fault is known by TensorFlow
    with pytest.raises(VerifyError, match="wanted DT_FLOAT"):
        graph_of({"node": [node(line) for line in text.strip().splitlines()[:3]]})


def test_names_that_tensorflow_makes():
    assert reasons("_x = Placeholder\ny = Abs _x")["y"] == ""
    with pytest.raises(VerifyError, match="characters"):
        graph_of({"node": [node("_x = Placeholder")]})


def test_a_graph_whose_structure_is_wrong_is_refused():
    with pytest.raises(VerifyError, match="no node 'y'"):
        graph("x = Abs y")
    with pytest.raises(VerifyError, match="cycle"):
        graph("x = Abs y\ny = Abs x")


CALL = "n = PartitionedCall x f=f() Tin=[DT_FLOAT] Tout=[DT_FLOAT]"


def test_calls_are_as_their_bodies():
    good = function("f", "y = Abs x", result="y:y:0")
    bad = function("f", "z = Abs x\ny = Other z:y:0", result="y:output:0")
    inner = "node 'y' (Other) of function 'f': axla has no such operation"
    for call in (CALL, "n = f x", "n = StatefulPartitionedCall x f=f() Tin=[DT_FLOAT] Tout=[DT_FLOAT]"):
        assert reasons(f"x = Placeholder\n{call}", good)["n"] == ""
        assert reasons(f"x = Placeholder\n{call}", bad)["n"] == inner
    nested = function("g", "y = f x", result="y:result:0")
    assert reasons("x = Placeholder\nn = g x", nested, good)["n"] == ""
    found = reasons("x = Placeholder\nn = g x", nested, bad)["n"]
    assert found == f"node 'y' (f) of function 'g': {inner}"


def test_branches_and_loops_are_as_their_bodies():
    yes = function("yes", "y = Const", "x:DT_FLOAT", "y:output:0")
    no = function("no", "y = RandomStandardNormal x T=DT_INT32", "x:DT_INT32", "y:output:0")
    text = "c = Flag\nx = Placeholder\ni = Placeholder dtype=DT_INT32\n"
    branch = "n = If c x Tcond=DT_BOOL Tin=[DT_FLOAT] Tout=[DT_FLOAT] then_branch=yes() else_branch=yes()"
    assert reasons(text + branch, yes)["n"] == ""
    branch = "n = If c i Tcond=DT_BOOL Tin=[DT_INT32] Tout=[DT_FLOAT] then_branch=no() else_branch=no()"
    assert "(RandomStandardNormal) of function 'no': its results differ" in reasons(text + branch, no)["n"]
    loop = "n = While x T=[DT_FLOAT] cond=yes() body=yes()"
    assert reasons(text + loop, yes)["n"] == ""
    loop = "n = While h T=[DT_RESOURCE] cond=yes() body=yes()"
    text = "h = Placeholder dtype=DT_RESOURCE\n"
    assert reasons(text + loop, function("yes", "y = Const", "x:DT_RESOURCE", "y:output:0"))["n"] == (
        "it takes or returns resources"
    )


def test_what_a_body_does_not_need_does_not_matter():
    body = function("f", "y = Abs x\nz = Other x", result="y:y:0")
    assert reasons(f"x = Placeholder\n{CALL}", body)["n"] == ""


def test_functions_that_call_themselves_or_are_missing():
    again = function("f", "y = f x", result="y:result:0")
    assert "calls itself" in reasons(f"x = Placeholder\n{CALL}", again)["n"]
    assert "there is no function 'f'" in reasons(f"x = Placeholder\n{CALL}")["n"]
    deep = [function(f"f{k}", f"y = f{k + 1} x", result="y:result:0") for k in range(300)]
    assert "nested more than 50" in reasons("x = Placeholder\nn = f0 x", *deep)["n"]


def test_operations_without_a_record_in_functions_have_definitions():
    body = function("f", "a = Two x\ny = Mul a:first:0 a:second:0", result="y:z:0")
    text = f"x = Placeholder\n{CALL}"
    known = {"Two": definition("Two", "first", "second")}
    assert reasons(text, body, definitions=known)["n"] == (
        "node 'a' (Two) of function 'f': axla has no such operation"
    )
    found = graph(text, body, definitions=known)
    inner = found.library.function(found.nodes["n"].attributes["f"], "it")
    assert inner.nodes["y"].inputs == [Output("a", 0), Output("a", 1)]
    assert "function 'f': node 'a' (Two): neither" in reasons(text, body, definitions={})["n"]
    with pytest.raises(UnsupportedError):
        found = graph(text, body, definitions={})
        found.library.function(found.nodes["n"].attributes["f"], "it")


def test_scopes():
    text = """
        x = Placeholder
        a = Abs x _XlaCompile=true _XlaScope=jit_scope_0
        b = Abs x
        c = Other x _XlaCompile=true
        d = Abs x _XlaCompile=false _XlaScope=jit_scope_0
    """
    marks = marked(graph(text), "scope")
    assert {name: (mark.reason, mark.scope) for name, mark in marks.items() if name != "x"} == {
        "a": ("", "jit_scope_0"),
        "b": ("it is in no scope", ""),
        "c": ("axla has no such operation", ""),
        "d": ("_XlaCompile is false", "jit_scope_0"),
    }
    assert marked(graph(text), "auto")["a"].scope == ""  # XLA's own choice has no scopes
    assert [name for name in marks if marks[name].asked] == ["a", "c"]


def test_a_call_has_the_attributes_of_its_function():
    body = function("f", "y = Abs x", result="y:y:0", _XlaCompile=True)
    assert reasons(f"x = Placeholder\n{CALL}", body, mode="scope")["n"] == ""
    body = function("f", "y = Abs x", result="y:y:0", _XlaCompile=False)
    assert reasons(f"x = Placeholder\n{CALL}", body)["n"] == "_XlaCompile is false"
    body = function("f", "y = Svd x", result="y:s:0", _XlaMustCompile=True)
    assert marked(graph(f"x = Placeholder\n{CALL}", body), "auto")["n"].must


@pytest.mark.parametrize(
    ("device", "found", "must", "reason"),
    [
        ("", "CPU:0", False, ""),
        ("/cpu:0", "CPU:0", False, ""),
        ("/device:CPU:*", "CPU:0", False, ""),
        ("/job:localhost/replica:0/task:0/device:CPU:1", "CPU:1", False, ""),
        ("/job:localhost", "CPU:0", False, ""),
        ("/device:XLA_CPU:0", "XLA_CPU:0", True, ""),
        ("/job:localhost/replica:0/task:0/device:XLA_CPU_JIT:0", "XLA_CPU_JIT:0", True, ""),
        ("/device:XLA_GPU:0", "XLA_GPU:0", True, ""),
        ("/gpu:1", "GPU:1", False, "it is placed on GPU:1"),
    ],
)
def test_devices(device: str, found: str, must: bool, reason: str):
    for mode in ("auto", "scope"):
        text = f"x = Placeholder\nn = Abs x _XlaCompile=true {'@' + device if device else ''}"
        mark = marked(graph(text), mode)["n"]
        assert (mark.device, mark.must, mark.reason) == (found, must, reason)


def test_what_must_be_compiled_is_compiled_where_others_are_left_to_tensorflow():
    text = "x = Placeholder\ni = Placeholder dtype=DT_INT32\n"
    line = "n = RandomStandardNormal i T=DT_INT32"
    for more in ("@/device:XLA_CPU:0", "_XlaMustCompile=true"):
        mark = marked(graph(f"{text}{line} {more}"), "scope")["n"]
        assert mark.must and mark.reason == ""
        mark = marked(graph(f"{text}n = Other x {more}"), "scope")["n"]
        assert mark.must and mark.reason == "axla has no such operation"


def test_branches_of_tensorflow_1_in_functions_that_must_be_compiled():
    body = "s = Switch x p\na = Abs s:output_true:0\nb = Neg s:output_false:0\ny = Merge a:y:0 b:y:0"
    body = function("f", body, "x p:DT_BOOL", "y:output:0")
    text = "x = Placeholder\np = Flag\nn = f x p"
    assert "'s' (Switch) of function 'f': it is control flow" in reasons(text, body)["n"]
    assert reasons(f"{text} _XlaMustCompile=true", body)["n"] == ""


# Groups.


def groups(text: str) -> dict[str, FrameGroup]:
    return {name: mark.group for name, mark in marked(graph(text), "auto").items()}


def test_predicates():
    found = groups("""
        p = Flag
        q = Flag
        x = Placeholder
        s = Switch x p
        a = Abs s:1
        b = Abs s
        t = Switch a q
        c = Abs t:1
        d = Abs x ^a
        m = Merge a b
        e = Mul m x
        n = Merge a c
        f = Abs n
        g = ControlTrigger ^a
        h = Abs x ^s
    """)
    p, q = Output("p", 0), Output("q", 0)
    wanted = {
        "x": set(), "s": set(), "a": {ConditionSide(p, True)}, "b": {ConditionSide(p, False)},
        "c": {ConditionSide(p, True), ConditionSide(q, True)}, "d": {ConditionSide(p, True)},
        "m": set(), "e": set(), "f": {"n"}, "g": set(), "h": set(),
    }  # fmt: skip
    assert {name: set(found[name].predicate) for name in wanted} == wanted
    assert {group.frame for group in found.values()} == {()}


LOOP = """
    z = Placeholder
    i0 = Enter z frame_name=f
    x0 = Enter {start} frame_name=f
    k = Enter z frame_name=f is_constant=true
    i = Merge i0 i3
    x = Merge x0 x3
    less = Less i k
    go = LoopCond less
    i1 = Switch i go
    x1 = Switch x go
    one = Const ^i1
    i2 = Add i1:1 one
    x2 = Mul x1:1 i2
    i3 = NextIteration i2
    x3 = NextIteration {back}
    end = Exit x1
    out = Abs end
"""


def test_values_of_a_loop_live_equally_long():
    found = groups(LOOP.format(start="z", back="x2"))
    assert found["i"] == found["x"] == found["less"] == FrameGroup(("f",), frozenset([("f",)]))
    assert (
        found["i2"]
        == found["x2"]
        == FrameGroup(("f",), frozenset([("f",), ConditionSide(Output("go", 0), True)]))
    )
    assert found["k"] == FrameGroup(("f",), frozenset())
    assert found["out"] == found["z"] == FrameGroup((), frozenset())  # a loop ends once


def test_values_of_a_loop_that_need_not_live_equally_long():
    more = "p = Flag\nw = Switch z p\n"
    found = groups(more + LOOP.format(start="w:1", back="x2"))
    assert found["i"].predicate == {"i"} and found["x"].predicate == {"x"}
    assert found["x2"].predicate == {"i", "x", ConditionSide(Output("go", 0), True)} != found["i2"].predicate
    more = "b = Enter f T=DT_BOOL frame_name=f is_constant=true\nf = Flag\nw = Switch x2 b\n"
    found = groups(more + LOOP.format(start="z", back="w:1"))
    assert found["i"].predicate == {"i"} and found["x"].predicate == {"x"}


def test_a_loop_of_which_nothing_is_known_does_not_matter_to_others():
    other = _renamed(LOOP.format(start="z", back="x2")).replace("frame_name=f", "frame_name=g")
    more = "p = Flag\nw = Switch z p\n" + LOOP.format(start="w:1", back="x2")
    found = groups(more + other.replace("z = Placeholder", ""))
    assert found["i"].predicate == {"i"} and found["ji"].predicate == found["jx"].predicate == {("g",)}


def test_a_condition_is_the_same_behind_identities():
    found = groups("""
        p = Flag
        q = Identity p T=DT_BOOL
        x = Placeholder
        s = Switch x p
        t = Switch x q
        a = Mul s:1 t:1
        b = Neg t
        m = Merge a b
    """)
    assert found["a"].predicate == {ConditionSide(Output("p", 0), True)} and found["m"].predicate == set()


def test_what_says_that_there_is_another_turn_stays_outside():
    text = LOOP.format(start="z", back="x2").replace(
        "one = Const ^i1", "j = Identity i1:1\n    one = Const ^j"
    )
    assert reasons(text)["j"] == "constants of a loop wait for it"
    assert reasons(text.replace("^j", "^i1"))["j"] == ""


def _renamed(text: str) -> str:
    """A loop with other names for all but `z`."""
    return re.sub(r"(?<![\w=])(i[0-3]?|x[0-3]?|k|less|go|one|end|out)(?![\w=])", r"j\1", text)


def test_loops_in_loops():
    inner = _renamed(LOOP.format(start="z", back="x2")).replace("frame_name=f", "frame_name=g")
    inner = inner.replace("z = Placeholder", "").replace(" z ", " x1:1 ")
    found = groups(LOOP.format(start="z", back="jout") + inner)
    assert found["ji2"].frame == ("f", "g") and found["jout"].frame == ("f",)
    assert found["i"].predicate == found["x"].predicate == {("f",)}
    assert found["jout"] == found["i2"]
