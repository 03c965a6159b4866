"""Equal shardings have one text."""

from __future__ import annotations

import pytest

from axla.core.errors import InvalidArgument
from axla.text import parse_hlo
from axla.text.sharding import read_sharding

# As XLA prints them.
FORMS = [
    ("replicated", "replicated"),
    ("maximal  device=1", "maximal device=1"),
    ("devices=[2,4] <= [2,4] T(0,1)", "devices=[2,4]<=[8]"),
    ("devices=[2,4]<=[8,1]T(1,0)", "devices=[2,4]<=[8]"),
    ("devices=[2,4]<=[2,2,2]T(0,2,1)", "devices=[2,4]<=[2,2,2]T(0,2,1)"),
    ("devices=[2,4]<=[2,2,2]T(1,2,0)", "devices=[2,4]<=[2,4]T(1,0)"),
    ("devices=[2,4]<=[2,4,1]T(2,1,0)", "devices=[2,4]<=[2,4]T(1,0)"),
    ("devices=[2,1]1, 0", "devices=[2,1]1,0"),
    ("devices=[2,1,4]<=[8] last_tile_dims={replicated}", "devices=[2,1,4]<=[8] last_tile_dim_replicate"),
    ("devices=[2,4,1]<=[8] last_tile_dim_replicate", "devices=[2,4]<=[8]"),
    ("devices=[1,1,8]<=[8] last_tile_dim_replicate", "replicated"),
    ("devices=[2,1,2,2]<=[8] last_tile_dims={replicated,manual}",
     "devices=[2,1,2,2]<=[2,2,2]T(0,2,1) last_tile_dims={manual, replicated}"),
    # Devices that hold the same are in ascending order.
    ("devices=[1,2,2]1,0,3,2 last_tile_dim_replicate", "devices=[1,2,2]0,1,2,3 last_tile_dim_replicate"),
    ("devices=[2,2]1,2,3,0 last_tile_dim_replicate", "devices=[2,2]1,2,0,3 last_tile_dim_replicate"),
    ("devices=[4,1,4]<=[2,2,4]T(2,1,0) last_tile_dim_replicate",
     "devices=[4,1,4]<=[4,4]T(1,0) last_tile_dim_replicate"),
    ("devices=[1,1,2,4]<=[2,4]T(1,0) last_tile_dim_replicate",
     "devices=[1,1,2,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate"),
    ("replicated shard_as 1", "replicated shard_as 1"),
    ('replicated metadata={op_name="a"}', 'replicated metadata={op_name="a"}'),
    ("{replicated},{devices=[2,1]<=[2]}", "{replicated}, {devices=[2,1]<=[2]}"),
    ("mesh['x'=2,'y'=4] [{'x'},{'y'}]", "mesh['x'=2,'y'=4], [{'x'}, {'y'}]"),
    ("", ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "form"), FORMS)
def test_one_form(text, form):
    assert str(read_sharding(text) or "") == form
    assert read_sharding(text) == read_sharding(form)


@pytest.mark.parametrize(
    "text", ["foo", "maximal", "devices=[2]", "devices=[2]<=[2]T(1)", "replicated}{manual"]
)
def test_refuses(text):
    with pytest.raises(InvalidArgument):
        read_sharding(text)


def test_one_sharding_for_all_elements_of_a_tuple():
    module = parse_hlo("ROOT t = (f32[2], s32[]) parameter(0), sharding={manual}")
    assert module.entry.root.extra.sharding == read_sharding("{manual}, {manual}")
