"""`axla graph`: the data of pages, pictures, and what notebooks show. A browser is in test_graph_page.py."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import xml.etree.ElementTree as ElementTree
import zlib

import numpy as np
import pytest

import axla
from axla.backends import CompileOptions, get
from axla.codegen.host import host_target
from axla.lowering.pipeline import optimize, program_of
from axla.passes.pipelines import PASSES
from axla.tools import main as command
from axla.tools.page import compiled, memory, stages
from axla.tools.page.html import page

TEXT = """HloModule small
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[64,64] parameter(0)
  one = f32[] constant(1)
  ones = f32[64,64] broadcast(one), dimensions={}
  m = f32[64,64] multiply(x, ones), metadata={op_name="jit(f)/mul" source_file="model.py" source_line=12}
  t = f32[64,64] tanh(m), metadata={op_name="jit(f)/tanh" source_file="model.py" source_line=13}
  zero = f32[] constant(0)
  ROOT r = f32[64] reduce(t, zero), dimensions={1}, to_apply=add
}
"""

LOOP = """HloModule counting
less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT l = pred[] compare(a, b), direction=LT }
condition { p = (s32[], f32[4096], f32[4096]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(7)
  ROOT c = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[4096], f32[4096]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[4096] get-tuple-element(p), index=1
  y = f32[4096] get-tuple-element(p), index=2
  s = f32[4096] sort(x), dimensions={0}, to_apply=less
  z = f32[4096] add(s, y)
  ROOT t = (s32[], f32[4096], f32[4096]) tuple(j, z, y) }
ENTRY main { x = f32[4096] parameter(0)
  before = f32[4096] sort(x), dimensions={0}, to_apply=less
  zero = s32[] constant(0)
  init = (s32[], f32[4096], f32[4096]) tuple(zero, x, before)
  loop = (s32[], f32[4096], f32[4096]) while(init), condition=condition, body=body
  ROOT out = f32[4096] get-tuple-element(loop), index=1 }
"""

NASTY = "</script><script>alert(1)</script>"
INJECTED = f"""HloModule injected
ENTRY main {{
  x = f32[4] parameter(0), metadata={{op_name="{NASTY}" source_file="<img src=x onerror=alert(2)>"}}
  ROOT c = f32[4] custom-call(x), custom_call_target="{NASTY}", frontend_attributes={{a="<b>{NASTY}</b>"}}
}}
"""


def unpacked(html: str, name: str = "data"):
    """The data of a page, as the browser reads it."""
    found = re.search(rf'<script type="application/octet-stream" id="{name}">([^<]*)</script>', html)
    assert found is not None
    return json.loads(zlib.decompress(base64.b64decode(found[1])))


def cpu_data(text: str, **options):
    return compiled.of_module(axla.parse(text), host_target(), **options)


def state(data, number: int) -> dict[int, list]:
    """The records of a state by id."""
    latest = {}
    for stage in data["stages"][: number + 1]:
        latest.update(stage["computations"])
    order = data["stages"][number]["order"]
    return {data["records"][n][0]: data["records"][n] for c in order for n in latest[c][2]}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.hlo"
    path.write_text(TEXT)
    return path


def test_states_say_what_each_pass_changed():
    data = stages.of_passes(axla.parse(TEXT), [PASSES["algsimp"], PASSES["dce"]], host_target())
    assert [stage["pass"] for stage in data["stages"]] == ["", "algsimp"]
    before, after = state(data, 0), state(data, 1)
    gone = {before[id_][1] for id_ in before.keys() - after.keys()}
    assert gone == {"one", "ones", "m"}
    changed = {id_ for id_ in before.keys() & after.keys() if before[id_] is not after[id_]}
    assert {after[id_][1] for id_ in changed} == {"t"}
    [t] = changed
    assert [after[id_][5] for id_ in after[t][4]] == ["%x = f32[64,64]{1,0} parameter(0)"]


def test_states_name_rules_their_equations_and_where_they_fired():
    data = stages.of_passes(axla.parse(TEXT), [PASSES["algsimp"]], host_target())
    rules = data["stages"][1]["rules"]
    before = state(data, 0)
    assert [before[id_][1] for id_ in rules["multiply_one"]] == ["m"]
    assert data["equations"]["multiply_one"] == "x * 1 => x"


def test_an_unchanged_computation_is_not_written_again():
    data = stages.of_passes(axla.parse(TEXT), [PASSES["algsimp"]], host_target())
    names = [[made[0] for made in stage["computations"].values()] for stage in data["stages"]]
    assert names == [["main", "add"], ["main"]] or names == [["add", "main"], ["main"]]


def test_records_have_shapes_with_layouts_cost_and_source():
    data = stages.of_module(axla.parse(TEXT))
    by_name = {record[1]: record for record in data["records"]}
    assert by_name["t"][3] == "f32[64,64]{1,0}"
    assert by_name["t"][8:] == ["model.py:13", "jit(f)/tanh", 64 * 64, 2 * 64 * 64 * 4]
    assert by_name["r"][6] == [
        next(c for c, made in data["stages"][0]["computations"].items() if made[0] == "add")
    ]


def test_passes_run_as_without_being_watched():
    plain, watched = axla.parse(TEXT), axla.parse(TEXT)
    optimize(plain, host_target())
    data = stages.of_passes(watched, None, host_target())
    assert watched.to_string() == plain.to_string()
    names = [stage["pass"] for stage in data["stages"]]
    assert {"algsimp", "fusion"} <= set(names) and any(stage["rules"] for stage in data["stages"])


def test_every_kernel_has_computation_plan_llvm_and_assembly():
    data = cpu_data(TEXT)
    [kernel] = data["kernels"]
    program, llvm, assembly = data["code"][kernel["name"]]
    assert "tanh(" in program and "plan" in program
    assert f"@{kernel['name']}(" in llvm and f"{kernel['name']}:" in assembly
    assert (
        data["code"]["entry"][0].startswith("axla-program 1\n") and "axla_entry" in data["code"]["entry"][1]
    )
    assert [len(texts) for texts in cpu_data(TEXT, code=False)["code"].values()] == [1, 1]


def test_what_is_refused_still_has_a_page():
    text = 'HloModule m\nENTRY e { ROOT r = f32[4] custom-call(), custom_call_target="nobody" }'
    data = cpu_data(text)
    assert len(data["notes"]) == 1 and "nobody" in data["notes"][0]
    assert state(data, 0) and "kernels" not in data


# Memory.


def memory_of(text: str):
    work = get("cpu").work(axla.parse(text), CompileOptions())  # type: ignore[attr-defined]
    target = host_target()
    optimize(work, target)
    program = program_of(work, target)
    steps = memory.timed_steps(program)
    return program, steps, memory.blocks(program, steps)


def test_values_that_are_alive_together_do_not_share_bytes():
    _, _, blocks = memory_of(LOOP)
    for a in blocks:
        for b in blocks:
            if a.name < b.name and a.first < b.last and b.first < a.last and str(a.place) != str(b.place):
                assert not a.place.overlaps(b.place), (a, b)


def test_what_a_loop_reads_is_alive_as_long_as_the_loop():
    _, steps, blocks = memory_of(LOOP)
    [loop] = [timed for timed in steps if timed.last > timed.first]
    before = [b for b in blocks if b.first < loop.first and b.last > loop.first]
    assert before and all(block.last >= loop.last for block in before)
    assert all(loop.first <= timed.first <= loop.last for timed in steps if timed.depth)


def test_the_most_bytes_in_use_fit_into_workspace_and_results():
    program, steps, blocks = memory_of(LOOP)
    live = memory.live_bytes(blocks, len(steps))
    room = program.interface.workspace_bytes + sum(r.bytes for r in program.interface.results)
    assert 2 * 4096 * 4 <= max(live) <= room
    assert live[-1] >= 4096 * 4  # the result


def test_bytes_of_values_one_after_the_other_at_a_place_count_once():
    from axla.program.memory import Allocation, AllocationKind, BufferSlice

    place = BufferSlice(Allocation(AllocationKind.WORKSPACE, 0, 0), 0, 64)
    found = [memory.LiveBlock("a", place, 0, 2), memory.LiveBlock("b", place, 2, 3)]
    assert memory.live_bytes(found, 5) == [64, 64, 64, 64, 0]


# Pages.


def test_a_page_holds_everything_and_reaches_for_nothing(file, tmp_path, capsys):
    out = tmp_path / "page.html"
    assert command.main(["graph", str(file), "-o", str(out), "--profile", "--repeat", "3"]) == 0
    assert capsys.readouterr().out.startswith(f"{out}: ")
    html = out.read_text()
    assert "default-src 'none'" in html and "Permission is hereby granted, free of charge" in html
    assert not re.search(r"(?:src|href)\s*=", re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL))
    data = unpacked(html)
    [run] = data["profile"]["runs"]
    assert run["calls"] == 3 and run["ns"] >= sum(row[6] for row in run["rows"][:-1]) > 0
    steps = {step[0] for step in data["steps"]}
    assert {row[0] for row in run["rows"]} - {"profile", "call"} <= steps
    assert unpacked(html, f"code-{data['codes'].index(data['kernels'][0]['name'])}")[1].count("define") >= 1


def test_rows_of_a_profile_are_in_the_order_of_the_program():
    module = axla.parse(LOOP)
    found = compiled.of_run(module, [[np.ones(4096, np.float32)]], 2, lambda _: None)
    no_steps = ("arguments, results, waiting", "readings of the clock", "loop")
    names = [row[0] for row in found["runs"][0]["rows"] if row[1] not in no_steps]
    order = [step[0] for step in cpu_data(LOOP, code=False)["steps"]]
    assert len(names) > 2 and names == [name for name in order if name in names]
    assert found["spans"][0][3] == 0 and any(span[1] == "call" for span in found["spans"])


def test_devices_have_times_of_their_own():
    text = """HloModule pair, replica_count=2
    add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] add(x, y) }
    ENTRY main { x = f32[256,256] parameter(0)
      t = f32[256,256] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT r = f32[256,256] all-reduce(t), replica_groups={}, to_apply=add }"""
    found = compiled.of_run(axla.parse(text), [[np.ones((256, 256), np.float32)]], 2, lambda _: None)
    [run] = found["runs"]
    assert len(run["devices"]) == 2
    product = next(k for k, row in enumerate(run["rows"]) if "dot" in row[1])
    times = [device[product] for device in run["devices"]]
    assert all(times)
    assert abs(sum(times) / 2 - run["rows"][product][6]) <= 0.2 * run["rows"][product][6]


def test_names_texts_and_places_of_a_module_cannot_be_markup():
    html = page(compiled.of_module(axla.parse(INJECTED), host_target()))
    assert NASTY not in html and "<img" not in html
    data = unpacked(html)
    assert any(NASTY in record[5] for record in data["records"])


def test_the_script_of_the_page_writes_no_markup():
    from importlib.resources import files

    folder = files("axla").joinpath("tools", "templates")
    texts = [
        p.read_text("utf-8") for p in folder.iterdir() if p.name.startswith("page") and p.name.endswith(".js")
    ]
    assert len(texts) == 5
    for text in texts:
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function|fetch\(|import", text
        )


def test_a_title_is_text(tmp_path):
    module = axla.parse(TEXT)
    module.name = "<script>alert(3)</script>"
    html = page(stages.of_module(module))
    assert "<script>alert(3)" not in html and "&lt;script&gt;alert(3)" in html


def test_the_library_is_the_published_file():
    from hashlib import sha256
    from importlib.resources import files

    folder = files("axla").joinpath("tools", "page", "dagre")
    found = sha256(folder.joinpath("dagre.min.js").read_bytes()).hexdigest()
    assert found == "54a503e346f93ca0bb10abe7999587e037262935687aca45eb4e4b0f64bbb578"
    assert (
        "MIT" in folder.joinpath("README.md").read_text()
        and "3.1.3" in folder.joinpath("README.md").read_text()
    )


def test_pages_of_chosen_passes_and_of_none(file, tmp_path):
    for options, passes in ((["--passes=algsimp"], ["", "algsimp"]), (["--plain"], [""])):
        assert command.main(["graph", str(file), "-o", str(tmp_path / "p.html"), *options]) == 0
        data = unpacked((tmp_path / "p.html").read_text())
        assert [stage["pass"] for stage in data["stages"]] == passes and "kernels" not in data


def test_a_page_takes_the_inputs_of_run(file, tmp_path, capsys):
    page = tmp_path / "p.html"
    given = ["graph", str(file), "-o", str(page), "--no-code", "--profile", "--repeat", "3"]
    assert command.main([*given, "--input-kinds=ordinary,zeros", "--seed=2"]) == 0
    profile = unpacked(page.read_text())["profile"]
    assert [run["calls"] for run in profile["runs"]] == [6]
    np.savez(tmp_path / "x.npz", nothing=np.zeros(1))
    assert command.main([*given, "--inputs", str(tmp_path / "x.npz")]) == 1
    assert "'nothing' is not a parameter" in capsys.readouterr().err


@pytest.mark.parametrize(
    "more, message",
    [
        (["-o", "page.pdf"], "--output=page.pdf: wanted a file .html, .dot or .svg"),
        (["-o", "page.html", "--input", "x.npy"], "--input needs --profile"),
        (["-o", "page.html", "--inputs", "x.npz"], "--inputs needs --profile"),
        (["-o", "page.html", "--profile", "--repeat=0"], "--repeat=0: wanted at least 1"),
        (["-o", "page.svg", "--profile"], "--profile: wanted an .html file, found page.svg"),
        (["-o", "page.html", "--passes=nosuch"], "nosuch"),
    ],
)
def test_wrong_options_are_named(file, tmp_path, capsys, monkeypatch, more, message):
    monkeypatch.chdir(tmp_path)
    assert command.main(["graph", str(file), *more]) == 1
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [file]


# Pictures.


def test_a_dot_file_is_that_of_the_module_after_the_passes(file, tmp_path):
    out = tmp_path / "graph.dot"
    assert command.main(["graph", str(file), "-o", str(out), "--passes=algsimp"]) == 0
    assert "tanh" in out.read_text() and "multiply" not in out.read_text()


def boxes_of(svg: str) -> list[tuple[float, float, float, float]]:
    root = ElementTree.fromstring(svg)
    found = root.iter("{http://www.w3.org/2000/svg}rect")
    return [tuple(float(one.attrib[name]) for name in ("x", "y", "width", "height")) for one in found]  # type: ignore


def test_boxes_of_a_picture_do_not_overlap(tmp_path):
    path, out = tmp_path / "loop.hlo", tmp_path / "loop.svg"
    path.write_text(LOOP)
    assert command.main(["graph", str(path), "-o", str(out)]) == 0
    boxes = boxes_of(out.read_text())
    assert len(boxes) == sum(len(c.instructions) for c in axla.parse(LOOP).computations)
    for k, (x, y, width, height) in enumerate(boxes):
        assert x >= 0 and y >= 0
        for other_x, other_y, other_width, other_height in boxes[:k]:
            apart = x >= other_x + other_width or other_x >= x + width
            assert apart or y >= other_y + other_height or other_y >= y + height


def test_data_flows_downwards_in_a_picture():
    from axla.tools.page.svg import drawing

    module = axla.parse(
        "HloModule chain\nENTRY e { x = f32[] parameter(0)  a = f32[] negate(x)  ROOT b = f32[] add(a, x) }"
    )
    tops = [y for _, y, _, _ in boxes_of(drawing(module))]
    assert tops == sorted(tops) and len(set(tops)) == 3


def test_a_box_of_a_picture_stands_right_above_its_first_user():
    from axla.tools.page.svg import drawing

    text = (
        "a = f32[] negate(x)\n b = f32[] negate(a)\n late = f32[] parameter(1)\n ROOT c = f32[] add(b, late)"
    )
    svg = drawing(axla.parse("HloModule m\nENTRY e { x = f32[] parameter(0)\n" + text + " }"))
    names = [one.text for one in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")][1::2]
    tops = dict(
        zip([name.split()[-1] for name in names if name], [y for _, y, _, _ in boxes_of(svg)], strict=True)
    )
    assert tops["x"] < tops["a"] < tops["b"] == tops["late"] < tops["c"]


def test_pictures_escape_what_a_module_says():
    from axla.tools.page.svg import drawing

    svg = drawing(axla.parse("HloModule m\nENTRY e { ROOT x = (f32[<=4], s32[]) parameter(0) }"))
    assert "f32[&lt;=4]" in svg
    ElementTree.fromstring(svg)


def test_pictures_of_long_chains_need_no_recursion():
    from axla.tools.page.svg import drawing

    lines = ["x0 = f32[] parameter(0)", *(f"x{k} = f32[] negate(x{k - 1})" for k in range(1, 2000))]
    module = axla.parse("HloModule long\nENTRY e { " + "\n".join(lines) + "\nROOT r = f32[] add(x0, x1999) }")
    assert len(boxes_of(drawing(module))) == 2001


# Notebooks.


def framed(html: str):
    """The page in the frame of a notebook."""
    from html import unescape

    found = re.search(r'srcdoc="([^"]*)"', html)
    assert found is not None and 'sandbox="allow-scripts"' in html
    return unpacked(unescape(found[1]))


def test_notebooks_show_modules_executables_and_profiles():
    module = axla.parse(TEXT)
    assert [stage["pass"] for stage in framed(module._repr_html_())["stages"]] == [""]
    program = axla.compile(module)
    data = framed(program._repr_html_())
    assert len(data["stages"]) > 1 and data["kernels"] and data["memory"]["live"]
    with axla.profile() as taken:
        program(np.ones((64, 64), np.float32))
    assert framed(taken._repr_html_())["profile"]["runs"][0]["calls"] == 1


def test_notebooks_show_programs_of_other_backends():
    program = axla.compile(axla.parse(TEXT), backend="interpreter")
    assert "kernels" not in framed(program._repr_html_())


def test_notebooks_print_what_has_no_page():
    program = axla.compile(axla.parse(TEXT))
    loaded = axla.Executable.load(program.serialize())
    assert loaded._repr_html_() is None
    assert (
        axla.parse(
            "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }"
        )._repr_html_()
        is None
    )


def test_pages_are_not_imported_before_they_are_wanted(file):
    import sys

    code = "import axla, sys; axla.parse(open(sys.argv[1]).read()); print('axla.tools.page' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=True
    )
    assert found.stdout == "False\n"
