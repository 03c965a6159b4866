"""Copies of modules, bodies inlined into callers, and fingerprints."""

from axla.ir.clone import clone_computation, clone_module, fingerprint, inline
from axla.ir.dot_graph import dot_graph
from axla.ir.verify import verify
from axla.text.parser import parse_hlo
from hlo_tests import same_values

TEXT = """HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
sum { x = f32[4] parameter(0) z = f32[] constant(0)
  ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add }
ENTRY e {
  x = f32[4] parameter(0)
  n = f32[4] negate(x), metadata={op_name="n"}
  s = f32[] call(n), to_apply=sum, control-predecessors={n}
  ROOT t = (f32[4], f32[]) tuple(n, s)
}
"""


def test_a_cloned_module_prints_the_same():
    module = parse_hlo(TEXT)
    copy = clone_module(module)
    verify(copy)
    assert copy.to_string() == module.to_string()
    assert copy.entry is not module.entry and copy.config == module.config


def test_a_clone_is_apart():
    module = parse_hlo(TEXT)
    text = module.to_string()
    copy = clone_module(module)
    copy.entry.set_root(copy.entry.parameters[0])
    assert module.to_string() == text


def test_a_computation_cloned_in_its_module_shares_what_it_calls():
    module = parse_hlo(TEXT)
    source = next(c for c in module.computations if c.name == "sum")
    copy = clone_computation(source)
    assert copy.root.op.computations() == source.root.op.computations()
    assert copy.name != source.name and fingerprint(copy) == fingerprint(source)
    verify(module)


def test_a_computation_cloned_elsewhere_takes_along_what_it_calls():
    module, other = parse_hlo(TEXT), parse_hlo("HloModule o ENTRY add { ROOT x = f32[] parameter(0) }")
    source = next(c for c in module.computations if c.name == "sum")
    copy = clone_computation(source, other)
    verify(other)
    assert copy.root.op.computations()[0] in other.computations
    assert fingerprint(copy) == fingerprint(source)


def test_inline():
    before, module = parse_hlo(TEXT), parse_hlo(TEXT)
    call = next(i for i in module.entry.instructions if i.opcode == "call")
    root = inline(call, call.op.computations()[0], call.operands)
    module.entry.replace(call, root)
    module.entry.remove(call)
    verify(module)
    assert root.opcode == "reduce" and [p.name for p in root.extra.control_predecessors] == ["n"]
    same_values(before, module, 5)


def entry(body, head=""):
    return parse_hlo(f"{head}\nENTRY e {{ {body} }}").entry


def test_fingerprint_ignores_names_order_and_locations():
    a = entry(
        "x = f32[2] parameter(0) y = f32[2] parameter(1) "
        "a = f32[2] abs(x) b = f32[2] negate(y) ROOT r = f32[2] add(a, b)"
    )
    b = entry(
        "v = f32[2] parameter(1) u = f32[2] parameter(0) q = f32[2] negate(v) "
        'p = f32[2] abs(u), metadata={op_name="p"} ROOT s = f32[2] add(p, q)'
    )
    assert fingerprint(a) == fingerprint(b)


def test_fingerprint_tells_structure():
    texts = [
        "x = f32[2] parameter(0) ROOT r = f32[2] abs(x)",
        "x = f32[2] parameter(0) ROOT r = f32[2] negate(x)",
        "x = f32[3] parameter(0) ROOT r = f32[3] abs(x)",
        "x = f32[2] parameter(0) y = f32[2] parameter(1) ROOT r = f32[2] subtract(x, y)",
        "x = f32[2] parameter(0) y = f32[2] parameter(1) ROOT r = f32[2] subtract(y, x)",
        "x = f32[2] parameter(0) c = f32[2] constant({1, 2}) ROOT r = f32[2] add(x, c)",
        "x = f32[2] parameter(0) c = f32[2] constant({1, 3}) ROOT r = f32[2] add(x, c)",
        "x = f32[2,2]{1,0} parameter(0) ROOT r = f32[2,2]{1,0} abs(x)",
        "x = f32[2,2]{0,1} parameter(0) ROOT r = f32[2,2]{0,1} abs(x)",
        "x = f32[2,2] parameter(0) ROOT r = f32[1,2] slice(x), slice={[0:1], [0:2]}",
        "x = f32[2,2] parameter(0) ROOT r = f32[1,2] slice(x), slice={[1:2], [0:2]}",
    ]
    assert len({fingerprint(entry(t)) for t in texts}) == len(texts)


def test_fingerprint_sees_what_is_called():
    def reduce_by(op, name):
        head = f"{name} {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] {op}(a, b) }}"
        body = "x = f32[4] parameter(0) z = f32[] constant(0) "
        body += f"ROOT r = f32[] reduce(x, z), dimensions={{0}}, to_apply={name}"
        return fingerprint(entry(body, head))

    assert reduce_by("add", "f") == reduce_by("add", "g") != reduce_by("multiply", "f")


def test_large_constants_may_count_by_shape():
    def of(values):
        return entry(f"x = s32[4] parameter(0) c = s32[4] constant({{{values}}}) ROOT r = s32[4] add(x, c)")

    one, other = of("1,2,3,4"), of("1,2,3,5")
    assert fingerprint(one) != fingerprint(other)
    assert fingerprint(one, max_constant_bytes=8) == fingerprint(other, max_constant_bytes=8)
    assert fingerprint(one, max_constant_bytes=16) != fingerprint(other, max_constant_bytes=16)


def test_dot_graph_has_every_instruction_and_edge():
    module = parse_hlo(TEXT)
    text = dot_graph(module)
    edges = text.count("->")
    assert text.startswith('digraph "m" {') and text.count("{") == text.count("}")
    instructions = [i for c in module.computations for i in c.instructions]
    assert all(f"i{i.id} [" in text for i in instructions)
    # operands, the control edge, the two calls
    assert edges == sum(len(i.operands) for i in instructions) + 1 + 2
