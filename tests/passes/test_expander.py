"""Expansions keep the order that control edges demand, and look for these edges once."""

from axla.passes import driver, pipelines
from axla.passes.expand import expander
from axla.text.parser import parse_hlo

REWRITE = (pipelines.PASSES["transfer-rewriter"],)


def outfeeds(count):
    """Outfeeds, each of which waits for the one before it by a control edge only."""
    lines = [
        f"  t{n} = token[] outfeed(x, t), outfeed_shape=f32[4]"
        + (f", control-predecessors={{t{n - 1}}}" if n else "")
        for n in range(count)
    ]
    return "\n".join(
        [
            "ENTRY e {",
            "  t = token[] after-all()",
            "  x = f32[4] parameter(0)",
            *lines,
            "  ROOT r = f32[4] negate(x)",
            "}",
        ]
    )


def test_control_edges_go_on_to_what_is_new():
    module = parse_hlo(outfeeds(5))
    driver.run(module, REWRITE, name="test")
    made = [i for i in module.entry.instructions if i.opcode == "custom-call"]
    assert len(made) == 5
    assert [i.extra.control_predecessors for i in made] == [(), *((before,) for before in made[:-1])]


def test_control_edges_are_looked_for_once(monkeypatch):
    asked = []
    search = expander.control_successors
    monkeypatch.setattr(expander, "control_successors", lambda c: (asked.append(c), search(c))[1])
    driver.run(parse_hlo(outfeeds(50)), REWRITE, name="test")
    assert len(asked) == 1
