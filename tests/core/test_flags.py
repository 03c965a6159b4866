"""Flags: spellings and values. That a flag does something is tested by its owner."""

import dataclasses
import threading
import warnings

import pytest

from axla.core import flags
from axla.core.errors import InvalidArgument


def test_xla_spelling():
    found = flags.parse("--xla_dump_to=/tmp/d --xla_dump_hlo_as_text --xla_disable_hlo_passes=algsimp,cse")
    assert found == {"dump_to": "/tmp/d", "dump_hlo_as_text": True, "disable_hlo_passes": ("algsimp", "cse")}


def test_later_sources_win():
    environment = {
        "XLA_FLAGS": "--axla_fuel=1",
        "AXLA_FLAGS": "--axla_fuel=2 --axla_shuffle=7",
        "AXLA_SHUFFLE": "8",
    }
    found = flags.from_environment(environment)
    assert (found.fuel, found.shuffle) == (2, 8)


def test_flags_in_a_file(tmp_path):
    file = tmp_path / "flags"
    file.write_text("--axla_verify\n--xla_cpu_max_isa=AVX2\n")
    assert flags.parse(str(file)) == {"verify": True, "cpu_max_isa": "AVX2"}


def test_a_file_that_is_not_there():
    with pytest.raises(InvalidArgument, match="neither flags"):
        flags.parse("no-such-file")


def test_unknown_flag_is_reported_once_with_the_nearest_name():
    with pytest.warns(UserWarning, match=r"unknown flag --xla_dump_too; did you mean xla_dump_to\?"):
        assert flags.parse("--xla_dump_too=/tmp/x") == {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flags.parse("--xla_dump_too=/tmp/x")


def test_unknown_variable_is_reported():
    with pytest.warns(UserWarning, match="AXLA_TIMEINGS is not an option of axla; did you mean AXLA_TIMINGS"):
        flags.from_environment({"AXLA_TIMEINGS": "1"})


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("--axla_verify=maybe", "wanted true or false"),
        ("--axla_fuel=many", "wanted an integer"),
        ("--axla_fuel=-1", "at least 0"),
        ("--axla_fuel", "needs a value"),
        ("--xla_backend_optimization_level=4", "from 0 to 3"),
        ("--xla_cpu_max_isa=MMX", "one of SSE4_2"),
        ("--xla_dump_hlo_pass_re=(", "a regular expression"),
        ("--xla_force_host_platform_device_count=0", "at least 1|from 1"),
        ("--axla_num_threads=0", "from 1 to 4096"),
        ("--axla_trace='x", "closing quotation"),
    ],
)
def test_bad_values(text, wanted):
    with pytest.raises(InvalidArgument, match=wanted):
        flags.parse(text)


def test_override_holds_in_its_block_and_thread_only():
    before = flags.current()
    seen = []
    with flags.override(fuel=5) as inside:
        assert flags.current() is inside and inside.fuel == 5
        thread = threading.Thread(target=lambda: seen.append(flags.current().fuel))
        thread.start()
        thread.join()
    assert flags.current() == before and seen == [before.fuel]


def test_override_checks():
    with pytest.raises(InvalidArgument, match="no flag 'fule'; did you mean fuel"), flags.override(fule=1):
        pass
    with pytest.raises(InvalidArgument, match="at least 0"), flags.override(fuel=-3):
        pass


def test_environment_is_read_again_when_it_changes(monkeypatch):
    monkeypatch.setenv("AXLA_FUEL", "3")
    assert flags.current().fuel == 3
    monkeypatch.setenv("AXLA_FUEL", "4")
    assert flags.current().fuel == 4


def test_a_bad_variable_is_an_error_every_time(monkeypatch):
    monkeypatch.setenv("AXLA_FUEL", "much")
    for _ in range(2):
        with pytest.raises(InvalidArgument, match="AXLA_FUEL=much: wanted an integer"):
            flags.current()


def test_every_flag_has_a_variable_and_a_doc():
    assert len(flags.SPELLINGS) == sum(len(flags.spellings_of(name)) for name in flags.FIELDS), (
        "a spelling is taken twice"
    )
    for field in dataclasses.fields(flags.Flags):
        assert field.metadata["doc"].endswith(".")
        assert any(name.startswith("axla_") for name in flags.spellings_of(field.name))
