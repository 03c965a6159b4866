"""tfcompile's configuration: feeds, fetches and variables name, order and prune inputs and outputs."""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla.aot.build import BuildSource
from axla.aot.compiling import library_of
from axla.aot.config import configured, read_config, renamed, with_variables
from axla.aot.frontend import example
from axla.aot.library import Role
from axla.aot.options import Options
from axla.comparison import run_flat
from axla.ir.graph import Alias

# As the document of tfcompile has it, with names.
MATMUL = """
feed {
  id { node_name: "y_hold" }
  shape { dim { size: 3 } dim { size: 2 } }
  type: DT_FLOAT
}
# The order here is that of the arguments.
feed { id { node_name: "x_hold" } shape { dim { size: 2 } dim { size: 3 } } name: "x" }
fetch { id { node_name: "x_y_prod" } name: "product" type: 1 }
"""
GRAPH = """HloModule graph
ENTRY e {
  x_hold = f32[2,3] parameter(0)
  y_hold = f32[3,2] parameter(1)
  unused = f32[8] parameter(2)
  x_y_prod = f32[2,2] dot(x_hold, y_hold), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  twice = f32[2,2] add(x_y_prod, x_y_prod)
  other = f32[8] negate(unused)
  ROOT out = (f32[2,2], f32[8]) tuple(twice, other)
}
"""
COUNTER = """HloModule counter
ENTRY e {
  x = f32[4] parameter(0)
  count = s32[] parameter(1)
  table = f32[4] parameter(2)
  one = s32[] constant(1)
  next = s32[] add(count, one)
  y = f32[4] multiply(x, table)
  ROOT out = (f32[4], s32[]) tuple(y, next)
}
"""
TUPLES = """HloModule tuples
ENTRY e {
  p = (f32[4], (s32[], f32[4])) parameter(0)
  a = f32[4] get-tuple-element(p), index=0
  q = (s32[], f32[4]) get-tuple-element(p), index=1
  b = f32[4] get-tuple-element(q), index=1
  total = f32[4] add(a, b)
  ROOT r = (f32[4], (f32[4])) tuple(total, (f32[4]) tuple(a))
}
""".replace("(f32[4]) tuple(a))", "inner)").replace("  ROOT", "  inner = (f32[4]) tuple(a)\n  ROOT")


def source(text: str, config: str) -> BuildSource:
    found = configured(example(text), read_config(config)).source
    axla.compile(found.module)  # which verifies it
    return found


def names(found: BuildSource) -> tuple[list[str], list[str]]:
    return [a.name for a in found.arguments], [r.name for r in found.results]


def test_order_names_and_pruning():
    found = source(GRAPH, MATMUL)
    assert names(found) == (["y_hold", "x"], ["product"])
    text = found.module.to_string()
    assert "unused" not in text and "twice" not in text
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((3, 2), np.float32)
    [product] = run_flat(found.module, [y, x], "interpreter")
    assert np.array_equal(product, x @ y)


def test_the_program_itself_is_not_changed():
    one = example(GRAPH)
    before = one.source.module.to_string()
    configured(one, read_config(MATMUL))
    assert one.source.module.to_string() == before


def test_an_instruction_is_fed():
    found = source(
        GRAPH, 'feed { id { node_name: "x_y_prod" } name: "p" } fetch { id { node_name: "twice" } }'
    )
    assert names(found) == (["p"], ["twice"])
    [twice] = run_flat(found.module, [np.ones((2, 2), np.float32)], "interpreter")
    assert np.array_equal(twice, np.full((2, 2), 2))


def test_what_is_fed_may_be_fetched():
    found = source(GRAPH, 'feed { id { node_name: "unused" } } fetch { id { node_name: "unused" } }')
    [same] = run_flat(found.module, [np.arange(8, dtype=np.float32)], "interpreter")
    assert np.array_equal(same, np.arange(8))


def test_parts_of_tuples():
    config = (
        'feed{id{node_name:"p" output_index:2}} feed{id{node_name:"p"} name:"a"} fetch{id{node_name:"total"}}'
    )
    found = source(TUPLES, config)
    assert names(found) == (["p_2", "a"], ["total"])
    a, b = np.ones(4, np.float32), np.arange(4, dtype=np.float32)
    assert np.array_equal(run_flat(found.module, [b, a], "interpreter")[0], a + b)
    part = source(TUPLES, 'feed{id{node_name:"p"}} fetch{id{node_name:"inner" output_index: 0} name:"x"}')
    assert names(part) == (["p_0"], ["x"])


def test_variables_are_written_back():
    config = """
    feed { id { node_name: "x" } } fetch { id { node_name: "y" } }
    variable { node_name: "count" name: "n" } variable { node_name: "table" readonly: true }
    """
    named = COUNTER.replace("next", "count_next")
    with pytest.raises(axla.InvalidArgument, match="variable 'count': no result has its name"):
        source(named, config)
    module = axla.parse(COUNTER)
    module.set_config(aliases=(Alias((1,), 1, ()),))
    library, _ = library_of(module, None, Options(config=config))
    [function] = library.functions
    assert [(a.name, a.role) for a in function.arguments] == [
        ("x", Role.ARGUMENT), ("n", Role.VARIABLE), ("table", Role.CONSTANT_VARIABLE),
    ]  # fmt: skip
    assert [r.name for r in function.results] == ["y"]


def test_a_variable_of_jax_by_its_label():
    pytest.importorskip("jax")

    def step(x, state):
        return {"y": x * state["n"], "state": {"n": state["n"] + 1}}

    config = """
    feed { id { node_name: "x" } } fetch { id { node_name: "result['y']" } name: "y" }
    variable { node_name: "state['n']" }
    """
    args = (np.ones(3, np.float32), {"n": np.float32(1)})
    library, (one,) = library_of(step, args, Options(config=config))
    [function] = library.functions
    assert [a.role for a in function.arguments] == [Role.ARGUMENT, Role.VARIABLE]
    assert one.inputs is not None and len(one.inputs) == 2


BAD = [
    ("", axla.InvalidArgument, "it has no fetch"),
    ('fetch { id { } }', axla.InvalidArgument, "a fetch has no id { node_name }"),
    ('fetch { id { node_name: "twice" } }', axla.InvalidArgument, "need x_hold, y_hold, which no feed"),
    ('fetch { id { node_name: "nowhere" } }', axla.InvalidArgument, "fetch 'nowhere': there is no"),
    ('fetch { id { node_name: "out" } }', axla.InvalidArgument, "need x_hold"),
    ('fetch { id { node_name: "out" output_index: 2 } }', axla.InvalidArgument, "has only 2 outputs"),
    ('fetch { id { node_name: "other" output_index: 1 } }', axla.InvalidArgument, "has only one output"),
    ('fetch { id { node_name: "other" } }\nconversion_options { }', axla.ParseError,
     "no field 'conversion_options' at line 2"),
    ('fetch { id { node_name: "other" } shape { unknown_rank: true } }', axla.ParseError, "unknown_rank"),
    ('fetch { id { node_name: "other" } type: DT_STRING }', axla.ParseError, "'DT_STRING' is not a value"),
    ('fetch { id { node_name: "other" } type: 99 }', axla.InvalidArgument, "type 99 is unknown"),
    ('fetch { id { node_name: "other" ', axla.ParseError, "line 1"),
    ('feed { id { node_name: "unused" } shape { dim { size: 7 } } } fetch { id { node_name: "other" } }',
     axla.InvalidArgument, r"feed 'unused': the config says shape \[7\], the program has \[8\]"),
    ('feed { id { node_name: "unused" } type: DT_INT32 } fetch { id { node_name: "other" } }',
     axla.InvalidArgument, "says type s32, the program has f32"),
    ('feed { id { node_name: "unused" } } feed { id { node_name: "unused" } } '
     'fetch { id { node_name: "other" } }', axla.InvalidArgument, "feed: the name 'unused:0' is used twice"),
    ('variable { name: "x" } fetch { id { node_name: "other" } }', axla.InvalidArgument, "has no node_name"),
    ('feed { id { node_name: "unused" } name: "while" } fetch { id { node_name: "other" } }',
     axla.InvalidArgument, "'while' is a keyword or macro of C"),
    ('feed { id { node_name: "x_hold" } name: "a" } feed { id { node_name: "y_hold" } name: "a" } '
     'fetch { id { node_name: "twice" } }', axla.InvalidArgument, "the name 'a' is used twice"),
]  # fmt: skip


@pytest.mark.parametrize("config, kind, message", BAD)
def test_configs_that_are_wrong(config, kind, message):
    with pytest.raises(kind, match=message):
        library_of(GRAPH, None, Options(config=config))


def test_files(tmp_path):
    path = tmp_path / "c.pbtxt"
    path.write_text(MATMUL)
    for given in (path, str(path)):
        assert [entry.node for entry in read_config(given).feeds] == ["y_hold", "x_hold"]
    path.write_bytes(b"\n\x05\xff\xfe")
    with pytest.raises(axla.ParseError, match="the length is 5 bytes"):
        read_config(path)
    path.write_bytes(
        b"\n\x11\n\x04\n\x02xy\x12\x04\x12\x02\x08\x03\x1a\x01x\x20\x03\x12\x07\n\x05\n\x01z\x10\x01"
    )
    [feed], [fetch] = read_config(path).feeds, read_config(path).fetches
    assert (feed.node, feed.dims, feed.name, feed.dtype) == ("xy", (3,), "x", axla.core.dtypes.S32)
    assert (fetch.node, fetch.output) == ("z", 1)


def test_names_without_a_config():
    one = renamed(example(GRAPH).source, (["a", "b", "c"], None))
    assert names(one)[0] == ["a", "b", "c"]
    with pytest.raises(axla.InvalidArgument, match="found 1 names for 2 results"):
        renamed(example(GRAPH).source, (None, ["z"]))
    with pytest.raises(axla.InvalidArgument, match="found a str for 3 arguments"):
        renamed(example(GRAPH).source, ("abc", None))
    for wrong in ("abc", ("a",)):
        with pytest.raises(axla.InvalidArgument, match="names: wanted"):
            library_of(GRAPH, None, Options(names=wrong))  # type: ignore[arg-type]
    with pytest.raises(axla.InvalidArgument, match="are not allowed"):
        library_of(GRAPH, None, Options(config=MATMUL, variables=("x",)))


def test_variables_without_a_config():
    found = with_variables(example(COUNTER).source, ["table"])
    assert [a.variable for a in found.arguments] == [False, False, True]
    whole = with_variables(example(TUPLES).source, ["p"])
    assert all(a.variable for a in whole.arguments)
    with pytest.raises(axla.InvalidArgument, match="no argument is called 'q'; there are x, count, table"):
        with_variables(example(COUNTER).source, ["q"])
    with pytest.raises(axla.InvalidArgument, match="found the str 'table'"):
        with_variables(example(COUNTER).source, "table")


def test_variables_are_written_by_the_result_of_their_name():
    jax = pytest.importorskip("jax")
    state, x = {"n": np.zeros(3, np.float32), "scale": np.ones(3, np.float32)}, np.ones(3, np.float32)

    def step(state, x):
        return {"before": x * state["scale"], "state": {"n": state["n"] + x}}

    # Donated, JAX would have `before` written to state['n']: they are of one shape, and it comes first.
    for fn in (step, jax.jit(step, donate_argnums=0)):
        library, _ = library_of(fn, (state, x), Options(variables=("state",)))
        [function] = library.functions
        assert [a.name for a in function.arguments if a.role is Role.VARIABLE][0] == "state_n"
        assert function.arguments[-1].role is Role.ARGUMENT
        found = with_variables(example(fn, (state, x)).source, ["state"])
        labels = {a.parameter: found.results[a.output[0]].label for a in found.module.config.aliases}
        assert labels[0] == "result['state']['n']"
    text = jax.jit(step).lower(state, x).as_text(debug_info=True)
    library, _ = library_of(text, None, Options(variables=("state",)))
    assert [a.role for a in library.functions[0].arguments] == [
        Role.VARIABLE, Role.CONSTANT_VARIABLE, Role.ARGUMENT,
    ]  # fmt: skip
    assert [r.name for r in library.functions[0].results] == ["before"]


def test_a_variable_that_nothing_writes_though_a_nameless_result_could_is_an_error():
    jax = pytest.importorskip("jax")
    x = jax.ShapeDtypeStruct((3,), "float32")

    def step(p, s):
        return p + s, s * 2

    with pytest.raises(
        axla.InvalidArgument, match=r"no result is called p, .* result\[0\], result\[1\] may be meant"
    ):
        library_of(step, (x, x), Options(variables=("p", "s")))
    library, _ = library_of(step, (x, x), Options(variables=("p", "s"), names=(None, ["p", "s"])))
    assert [variable.name for variable in library.functions[0].variables] == ["p", "s"]
    # A result with a name of its own is not meant, and one of another shape cannot be.
    library_of(step, (x, x), Options(variables=("p",), names=(None, ["y", "z"])))
    library_of(lambda p, s: (p * s).sum(), (x, x), Options(variables=("p",)))
