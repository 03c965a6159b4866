"""The pages of `axla graph` in a headless Chromium: what people click, and what they see then."""

from __future__ import annotations

import importlib.util
import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest
from test_graph import INJECTED, LOOP, TEXT

import axla
from axla.codegen.host import host_target
from axla.comparison import random_inputs
from axla.tools.page import compiled, stages
from axla.tools.page.html import page
from browser import CHROMIUM, Browser

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH: apt-get install chromium"),
]
ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
sys.path.insert(0, str(ROOT / "scripts"))
from conformance_lib.corpora import corpus  # noqa: E402


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    made = Browser(tmp_path_factory.mktemp("chromium"))
    yield made
    made.close()


@pytest.fixture
def shown(browser, tmp_path):
    """Opens the page of some data; afterwards it must have reported no error and asked for nothing else."""
    browser.errors.clear()
    browser.requests.clear()
    path = tmp_path / "page.html"

    def show(data) -> Browser:
        path.write_text(page(data), encoding="utf-8")
        browser.open(path)
        return browser

    yield show
    assert browser.errors == []
    assert set(browser.requests) == {path.as_uri()}


def whole(text: str, *, runs: int = 0, code: bool = True):
    """The data of a program of the backend `cpu`, with a profile of so many runs."""
    module = axla.parse(text)
    data = compiled.of_module(module, host_target(), code=code)
    if runs:
        data["profile"] = compiled.of_run(module, [random_inputs(module)], runs, lambda _: None)
    return data


def names(browser: Browser, classes: str = "") -> set[str]:
    """Names of the instructions that the graph shows, of those with a class."""
    found = f"[...document.querySelectorAll('#scene .node{classes}')].map((e) => Number(e.dataset.id))"
    return set(browser.run(f"{found}.map((id) => shownState().instructions.get(id).record.name)"))


def instruction(name: str) -> str:
    """The id of an instruction, as an expression of the page."""
    return f"[...shownState().instructions.values()].find(({{record}}) => record.name === '{name}').record.id"


def boxes(browser: Browser, selector: str) -> list[list[float]]:
    """Left, top, right and bottom of elements, in pixels."""
    found = f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.getBoundingClientRect())"
    return browser.run(f"{found}.map((b) => [b.left, b.top, b.right, b.bottom])")


def test_the_graph_has_an_edge_for_each_operand_with_shape_and_layout(shown):
    browser = shown(stages.of_module(axla.parse(TEXT)))
    assert names(browser) == {"x", "one", "ones", "m", "t", "zero", "r"}
    edges = browser.texts("#scene .label")
    assert sorted(edges) == sorted(
        [
            "f32[]",
            "0: f32[64,64]{1,0}",
            "1: f32[64,64]{1,0}",
            "f32[64,64]{1,0}",
            "0: f32[64,64]{1,0}",
            "1: f32[]",
        ]
    )
    browser.click("#shapes")
    assert browser.count("#scene .label") == 0 and browser.count("#scene .edge") == 6


def test_data_flows_downwards_without_overlaps(shown):
    browser = shown(stages.of_module(axla.parse(TEXT)))
    placed = browser.run("current.nodes.map(({x, y, width, height}) => [x, y, width, height])")
    for k, (x, y, width, height) in enumerate(placed):
        for other_x, other_y, other_width, other_height in placed[:k]:
            beside = abs(x - other_x) * 2 >= width + other_width
            assert beside or abs(y - other_y) * 2 >= height + other_height
    assert browser.run("current.edges.every((e) => e.points[0].y < e.points.at(-1).y)")


def test_an_edge_out_of_a_tuple_has_the_number_of_the_element(shown):
    text = """ENTRY e { p = (f32[2], s32[3]) parameter(0)
      a = f32[2] get-tuple-element(p), index=0  b = s32[3] get-tuple-element(p), index=1
      ROOT t = (s32[3], f32[2]) tuple(b, a) }"""
    browser = shown(stages.of_module(axla.parse(text)))
    assert set(browser.texts("#scene .label")) == {"index=0", "index=1", "0: s32[3]{0}", "1: f32[2]{0}"}


def test_details_lead_on(shown):
    browser = shown(stages.of_module(axla.parse(TEXT)))
    browser.run(
        "select([...shownState().instructions.values()].find(({record}) => record.name === 't').record.id)"
    )
    assert "tanh(%m)" in browser.text("#text")
    details = browser.text("#right")
    assert "model.py:13" in details and "jit(f)/tanh" in details and "4.10 k operations" in details
    browser.run("[...document.querySelectorAll('#right .link')].find((e) => e.textContent === '%m').click()")
    assert browser.text("#right h3") == "%m" and names(browser, ".selected") == {"m"}


def test_a_click_on_a_box_selects_it(shown):
    browser = shown(stages.of_module(axla.parse(TEXT)))
    browser.click("#scene .node > rect", 2)
    assert len(names(browser, ".selected")) == 1
    assert browser.text("#right h3").lstrip("%") in names(browser, ".selected")
    lit = browser.count("#scene .edge.lit")
    assert lit >= 1
    browser.click("#shapes")
    assert browser.count("#scene .edge.lit") == lit


def test_computations_unfold_and_fold(shown):
    browser = shown(stages.of_module(axla.parse(TEXT)))
    before = browser.count("#scene .node")
    browser.click("#scene .fold")
    assert browser.count("#scene .node") == before + 3 and browser.count("#scene .inner") == 1
    [(left, top, right, bottom)] = boxes(browser, "#scene .inner > rect")
    for box in boxes(browser, "#scene .inner .node > rect"):
        assert left <= box[0] < box[2] <= right and top <= box[1] < box[3] <= bottom
    browser.click("#scene .fold")
    assert browser.count("#scene .node") == before
    browser.click("#computations .link", 1)
    assert browser.text("#computation") == "add" and browser.count("#scene .node") == 3


def test_fusions_show_what_is_in_them(shown):
    browser = shown(whole(TEXT))
    browser.slide("#slider", browser.run("data.stages.length - 1"))
    fusion = browser.run(
        "[...shownState().instructions.values()].find(({record}) => record.opcode === 'fusion').record.id"
    )
    browser.run(f"goTo({fusion})")
    assert "tanh(" in browser.text("#right .contents")


def test_the_slider_shows_what_each_pass_changed(shown):
    browser = shown(whole(TEXT))
    count = browser.run("data.stages.length")
    assert browser.text("#pass") == f"0/{count - 1} as given"
    browser.click("#later")
    assert browser.text("#pass").startswith(f"1/{count - 1} algsimp")
    assert names(browser, ".changed") == {"t"} and "m" not in names(browser)
    browser.click("#side button[data-side=before]")
    assert names(browser, ".removed") == {"one", "ones", "m"}
    assert "multiply_one ×1" in browser.text("#rules")
    browser.click("#rules .rule")
    assert names(browser, ".found") == {"m"}
    removed = browser.texts("#changes .removed")
    assert sorted(removed) == ["− m", "− one", "− ones"]
    browser.slide("#slider", count - 1)
    assert browser.text("#pass").startswith(f"{count - 1}/{count - 1} ")
    browser.click("#earlier")
    assert browser.text("#pass").startswith(f"{count - 2}/{count - 1} ")


def test_details_tell_the_history_of_an_instruction(shown):
    browser = shown(whole(TEXT))
    browser.run(
        "select([...shownState().instructions.values()].find(({record}) => record.name === 'm').record.id)"
    )
    assert browser.texts("#right .removed") == ["removed by algsimp (1)"]


def test_search_finds_by_name_opcode_shape_and_source(shown):
    browser = shown(stages.of_module(axla.parse(TEXT)))
    for words, wanted in (
        ("tanh", {"t"}),
        ("f32[64,64] mul", {"m"}),
        ("model.py:12", {"m"}),
        ("reduce", {"r"}),
        ("nothing", set()),
    ):
        browser.type("#search", words)
        found = browser.run(
            "[...document.querySelectorAll('#results .link')].map((e) => e.textContent.slice(1))"
        )
        assert set(found) == wanted == names(browser, ".found")
    browser.type("#search", "model.py:13")
    browser.click("#results .link")
    assert browser.text("#right h3") == "%t"
    [(left, top, right, bottom)] = boxes(browser, "#canvas")  # all of a small graph stays in sight
    for box in boxes(browser, "#scene .node"):
        assert left <= box[0] < box[2] <= right and top <= box[1] < box[3] <= bottom


def test_colours_by_cost_by_kernel_and_by_changes(shown):
    browser = shown(whole(TEXT, runs=2))

    def choose(kind: str) -> None:
        event = "byId('colours').dispatchEvent(new Event('change'))"
        browser.run(f"(() => {{ byId('colours').value = '{kind}'; {event}; }})()")

    choose("operations")
    for name, share in (("t", 1), ("zero", 0)):
        box = f"#scene .node[data-id='{browser.run(instruction(name))}'] > rect"
        assert browser.values(box, "fill") == [browser.run(f"heat({share})")]
    browser.slide("#slider", browser.run("data.stages.length - 1"))
    choose("kernel")
    kernels = browser.run(
        "new Set(current.nodes.map((node) => kernelNameOf(node.record)).filter(Boolean)).size"
    )
    assert (
        kernels
        == len(
            set(
                browser.run(
                    "[...document.querySelectorAll('#legend .swatch')].map((e) => e.style.background)"
                )
            )
        )
        == 1
    )
    choose("time")
    assert browser.run("current.nodes.some((node) => nsOf(node.record) > 0)")
    choose("changes")
    assert browser.text("#legend") == "addedremovedchanged"


def test_kernels_have_program_llvm_and_assembly_side_by_side(shown):
    browser = shown(whole(TEXT))
    browser.click("nav [data-tab=kernels]")
    browser.run("new Promise((done) => setTimeout(done, 100))")
    assert "axla_entry" in browser.text("#code-llvm")
    browser.run("showKernel(data.kernels[0].name)")
    kernel = browser.run("data.kernels[0].name")
    assert "tanh(" in browser.text("#code-program")
    assert f"@{kernel}(" in browser.text("#code-llvm") and f"{kernel}:" in browser.text("#code-assembly")
    columns = [boxes(browser, f"#code-{name}")[0] for name in ("program", "llvm", "assembly")]
    assert columns[0][2] <= columns[1][0] and columns[1][2] <= columns[2][0]
    assert len({top for _, top, _, _ in columns}) == 1


def test_the_profile_has_figures_and_a_timeline(shown):
    browser = shown(whole(LOOP, runs=3))
    browser.click("nav [data-tab=profile]")
    browser.settle()
    text = browser.text("#view-profile")
    assert "3 calls" in text and "GFLOP/s (f32), measured" in text
    steps = [text.strip() for text in browser.texts("#view-profile tbody td:nth-child(6)")]
    rows = browser.run("data.profile.runs[0].rows.filter((row) => row[7]).sort((a, b) => b[6] - a[6])")
    assert {"before", "s"} <= set(steps) and steps == [row[0] for row in rows]
    [calls, compilation] = [
        set(browser.values(f"#view-profile .chart:nth-of-type({n}) rect", "data-label")) for n in (1, 2)
    ]
    assert {"before", "s"} <= calls and {"passes", "llvm", "counting"} <= compilation
    browser.click("#view-profile tbody tr", steps.index("before"))
    assert browser.text("#right h3") == "%before" and "a call" in browser.text("#right")


def test_devices_are_lanes(shown):
    text = """HloModule pair, replica_count=2
    add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] add(x, y) }
    ENTRY main { x = f32[128,128] parameter(0)
      t = f32[128,128] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT r = f32[128,128] all-reduce(t), replica_groups={}, to_apply=add }"""
    browser = shown(whole(text, runs=2))
    browser.click("nav [data-tab=profile]")
    browser.settle()
    lanes = browser.texts("#view-profile .chart:first-of-type text.axis")
    assert [text for text in lanes if "device" in text] == ["device 0", "device 1"]
    assert len(set(browser.values("#view-profile .chart:first-of-type rect", "y"))) == 2


def test_memory_shows_who_has_which_bytes_when(shown):
    browser = shown(whole(LOOP))
    browser.click("nav [data-tab=memory]")
    browser.settle()
    drawn = browser.run(
        "[...document.querySelectorAll('#view-memory rect')].map((r) => r.dataset.label).filter(Boolean)"
    )
    assert sorted(drawn) == sorted(browser.run("data.memory.blocks.map((block) => block[0])"))
    loops = [box for box in boxes(browser, ".chart:first-of-type rect[data-label='']")]
    assert len(loops) == 1 and loops[0][3] - loops[0][1] > 200  # grey, as high as all of the workspace
    assert "most in use at a time" in browser.text("#peak") and browser.count("#view-memory polyline") == 1
    steps = browser.texts("#view-memory .chart:last-of-type text.axis[y='135']")
    assert steps == [str(number) for number in sorted({int(step) for step in steps})]


def test_source_lines_lead_to_their_instructions(shown):
    browser = shown(stages.of_module(axla.parse(TEXT)))
    browser.click("nav [data-tab=source]")
    lines = browser.run(
        "[...document.querySelectorAll('#view-source tbody tr')].map((row) => row.children[0].textContent)"
    )
    assert sorted(lines) == ["model.py:12", "model.py:13"]
    browser.click("#view-source tbody tr", lines.index("model.py:12"))
    assert names(browser, ".selected") == {"m"}


def test_names_and_texts_are_never_markup(shown):
    browser = shown(compiled.of_module(axla.parse(INJECTED), host_target()))
    browser.run("for (const id of shownState().instructions.keys()) select(id)")
    browser.click("nav [data-tab=source]")
    browser.click("nav [data-tab=graph]")
    browser.type("#search", "script")
    assert "</script><script>alert(1)" in browser.text("#right")
    assert browser.count("img") == browser.count("b > script") == 0
    assert browser.run("document.scripts.length") == browser.run("data.codes.length") + 3


def test_notebook_frames_show_profiles_without_a_graph(shown):
    from axla.tools.page import notebook

    with axla.profile() as taken:
        axla.compile(axla.parse(TEXT))(np.ones((64, 64), np.float32))
    browser = shown(notebook._data(taken))
    assert "1 calls" in browser.text("#view-profile")
    assert browser.run("[...byId('tabs').children].map((e) => e.textContent)") == ["profile"]


def large(instructions: int) -> str:
    """A program of so many instructions, none of which another one's can replace."""
    rng = random.Random(1)
    lines = ["v0 = f32[8,8] parameter(0)", "v1 = f32[8,8] parameter(1)"]
    while len(lines) < instructions - 1:
        n = len(lines)
        x, y = (f"v{max(0, n - 1 - int(rng.expovariate(0.2)))}" for _ in range(2))
        lines.append(f"v{n} = f32[8,8] {rng.choice(('add', 'subtract', 'maximum', 'divide'))}({x}, {y})")
    lines.append(f"ROOT out = f32[8,8] add(v{len(lines) - 1}, v{len(lines) - 2})")
    return "HloModule large\nENTRY main {\n" + "\n".join(lines) + "\n}"


def test_of_ten_thousand_instructions_a_neighbourhood_is_shown(shown):
    browser = shown(stages.of_passes(axla.parse(large(10_000)), None, host_target()))
    assert "of 10000 instructions" in browser.text("#extent") and "out" in names(browser)
    few = browser.count("#scene .node")
    assert few <= browser.run("MOST")
    browser.run("byId('depth').value = 9; byId('depth').dispatchEvent(new Event('input'))")
    assert few < browser.count("#scene .node") <= browser.run("MOST")
    hidden = browser.count("#scene .more")
    browser.run("document.querySelector('#scene .more').dispatchEvent(new Event('click'))")
    assert hidden and browser.count("#scene .node") > few
    browser.type("#search", "v5000 ")
    browser.click("#results .link")
    assert "v5000" in names(browser) and "out" not in names(browser)
    browser.slide("#slider", browser.run("data.stages.length - 1"))
    assert browser.count("#scene .node") > 0


def test_what_many_share_is_in_a_neighbourhood_without_its_users(shown):
    lines = ["v0 = f32[8] parameter(0)", *(f"v{k + 1} = f32[8] add(v{k}, v0)" for k in range(200))]
    browser = shown(stages.of_module(axla.parse("ENTRY e {" + "\n".join(lines) + "}")))
    assert names(browser) == {"v0", *(f"v{k}" for k in range(195, 201))}
    assert "+194" in browser.texts("#scene .more")


def epoch() -> str:
    """A training epoch of the example: a loop over mini-batches."""
    spec = importlib.util.spec_from_file_location("digits", EXAMPLES / "digits.py")
    assert spec is not None and spec.loader is not None
    digits = sys.modules["digits"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(digits)
    return digits.build_epoch((64, 16, 10), 100).module.to_string(print_large_constants=True)


def gpt() -> str:
    """The GPT of the conformance corpora."""
    models = corpus("models-open")
    if models is None:
        pytest.skip("the corpus models-open is not at hand")
    return (models / "gpt_forward" / "module.hlo.txt").read_text()


def layers() -> str:
    """A program of 10,000 instructions: a product and 19 more in each of 500 layers."""
    lines = ["x0 = f32[8,8] parameter(0)"]
    for k in range(500):
        x = f"x{k}"
        lines.append(f"d{k} = f32[8,8] dot({x}, x0), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}")
        lines.append(f"s{k}x0 = f32[8,8] add(d{k}, {x})")
        for n in range(17):
            lines.append(f"s{k}x{n + 1} = f32[8,8] {('cosine', 'tanh')[n % 2]}(s{k}x{n})")
        lines.append(f"x{k + 1} = f32[8,8] tanh(s{k}x17)")
    lines = lines[:-2] + [f"x500 = f32[8,8] tanh(s{k}x16)"]
    assert len(lines) == 10_000
    lines[-1] = f"ROOT {lines[-1]}"
    return "HloModule layers\nENTRY main {\n" + "\n".join(lines) + "\n}"


@pytest.mark.parametrize("program", [epoch, pytest.param(gpt, marks=pytest.mark.corpus), layers])
def test_slider_search_profile_and_memory_of_whole_programs(shown, program):
    browser = shown(whole(program(), runs=2, code=program is not layers))
    last = browser.run("data.stages.length - 1")
    assert last >= 2
    marked = set()
    for stage in range(last + 1):
        browser.slide("#slider", stage)
        for side, kinds in (("before", ("removed", "changed")), ("after", ("added", "changed"))):
            browser.click(f"#side button[data-side={side}]")
            assert browser.text("#pass").startswith(f"{stage}/{last} ") and browser.count("#scene .node") > 1
            found = {kind for kind in kinds if browser.count(f"#scene .node.{kind}")}
            assert bool(found) == browser.run(
                f"{list(kinds)}.some((kind) => difference({stage})[kind].size > 0)"
            )
            marked |= found
    assert {"removed", "added"} <= marked
    browser.type("#search", "dot(")
    found = browser.count("#results .link")
    assert found >= 3
    browser.click("#results .link", found - 1)
    assert browser.text("#right h3")[1:] in names(browser, ".selected") & names(browser, ".found")
    browser.click("nav [data-tab=profile]")
    steps = [name.strip() for name in browser.texts("#view-profile tbody td:nth-child(6)")]
    assert "2 calls" in browser.text("#view-profile") and len(steps) > 10
    browser.settle()
    [calls, compilation] = [
        set(browser.values(f"#view-profile .chart:nth-of-type({n}) rect", "data-label")) for n in (1, 2)
    ]
    assert calls <= set(steps) and {"passes", "llvm"} <= compilation
    computed = set(browser.run("data.steps.filter(([, , kernel]) => kernel).map(([name]) => name)"))
    number = next(k for k, name in enumerate(steps) if name in computed)
    browser.click("#view-profile tbody tr", number)
    assert browser.text("#right h3") == f"%{steps[number]}" and "a call" in browser.text("#right")
    browser.click("nav [data-tab=memory]")
    browser.settle()
    drawn = browser.values("#view-memory rect", "data-label")
    assert set(drawn) & computed and browser.count("#view-memory polyline") == 1
    number = next(k for k, name in enumerate(drawn) if name in computed)
    browser.click("#view-memory rect", number)
    assert browser.text("#right h3") == f"%{drawn[number]}" and "memory:" in browser.text("#right")


@pytest.mark.parametrize("program", [epoch, pytest.param(gpt, marks=pytest.mark.corpus)])
def test_frames_in_notebooks(browser, tmp_path, program):
    browser.errors.clear()
    module = axla.parse(program())
    executable = axla.compile(module)
    with axla.profile() as taken:
        executable(*random_inputs(module))
    for thing, tabs in (
        (module, ["graph", "source"]),
        (executable, ["graph", "kernels", "memory", "source"]),
        (taken, ["profile"]),
    ):
        path = tmp_path / "cell.html"
        path.write_text(f'<html data-ready="1"><body>{thing._repr_html_()}</body></html>', encoding="utf-8")
        browser.open(path)
        with browser.frame():
            assert module.name in browser.text("#title")
            assert browser.texts("#tabs button") == tabs
            assert browser.count("#scene .node" if "graph" in tabs else "#view-profile tbody tr") > 1
            assert browser.run("window.origin") == "null"  # without the rights of the notebook
    assert browser.errors == []
