"""Rules that are not axla's own, as the cache of programs asks for them."""

from __future__ import annotations

from axla.hlo.elementwise import Add
from axla.passes import rewrite
from axla.passes.rewrite import has_foreign, rule


def test_a_rule_counts_where_its_pass_has_it(monkeypatch):
    monkeypatch.setattr(rewrite, "FOREIGN", [])
    monkeypatch.setattr(rewrite, "RULES", {})
    assert not has_foreign(["algsimp"])

    @rule(Add, group="a-pass-of-a-test")
    def in_another_pass(root, x, y):
        """x + y => x + y"""

    assert not has_foreign(["algsimp"])

    @rule(Add)
    def in_algsimp(root, x, y):
        """x + y => x + y"""

    assert has_foreign(["algsimp"])
    rewrite.RULES["algsimp"].clear()
    assert not has_foreign(["algsimp"])
