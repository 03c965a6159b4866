"""Flags of automatic clustering: taken out of TF_XLA_FLAGS, checked when they are needed."""

import subprocess
import sys

import pytest

import axla
from axla.core.errors import InvalidArgument
from axla.tensorflow.clusters import flags


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    monkeypatch.setattr(flags, "_taken", {})
    monkeypatch.setattr(flags, "_dumps", flags.Counter())
    monkeypatch.setattr(flags.tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv(flags.VARIABLE, raising=False)
    return monkeypatch


@pytest.mark.parametrize(
    "text, left, found",
    [
        ("", None, {}),
        ("--tf_xla_auto_jit=2", None, {"auto_jit": 2}),
        ("-tf_xla_auto_jit=-1 --tf_xla_async_compilation", "--tf_xla_async_compilation", {"auto_jit": -1}),
        ("--tf_xla_max_cluster_size=9", "--tf_xla_max_cluster_size=9", {}),
        ("--tf_xla_min_cluster_size=1\n--tf_xla_cpu_global_jit", None, {"min_cluster_size": 1}),
        ("--tf_xla_cpu_global_jit=false", None, {"cpu_global_jit": False}),
        ("--tf_xla_clustering_debug --tf_xla_x='a b'", "--tf_xla_x='a b'", {"clustering_debug": True}),
        (r"--xla_generate_hlo_graph=cluster_\d", None, {"generate_hlo_graph": r"cluster_\d"}),
        ("--xla_generate_hlo_graph='a b'", None, {"generate_hlo_graph": "a b"}),
        ("--tf_xla_auto_jit=1 --tf_xla_auto_jit=2", None, {"auto_jit": 2}),
        ("--tf_xla_auto_jit=fusible", None, {"auto_jit": 1}),
        ("--tf_xla_auto_jit=single-gpu(2)", None, {"auto_jit": 0}),
    ],
)
def test_flags_are_taken_and_others_stay(environment, text, left, found):
    if text:
        environment.setenv(flags.VARIABLE, text)
    assert flags.current() == flags.ClusterFlags(**found)
    assert flags.os.environ.get(flags.VARIABLE) == left
    assert flags.current() == flags.ClusterFlags(**found), "what was taken stays"


def test_a_file_of_flags(environment, tmp_path):
    file = tmp_path / "flags"
    file.write_text("--tf_xla_auto_jit=2\n--tf_xla_other=1\n")
    environment.setenv(flags.VARIABLE, str(file))
    assert flags.current().auto_jit == 2
    assert flags.os.environ[flags.VARIABLE] == "--tf_xla_other=1"


def test_a_file_without_flags_of_ours_is_left_to_tensorflow(environment, tmp_path):
    environment.setenv(flags.VARIABLE, str(tmp_path / "missing"))
    assert flags.current() == flags.ClusterFlags()
    assert flags.os.environ[flags.VARIABLE] == str(tmp_path / "missing")


@pytest.mark.parametrize(
    "text, message",
    [
        ("--tf_xla_auto_jit=much", "--tf_xla_auto_jit=much: wanted an integer"),
        ("--tf_xla_auto_jit", "--tf_xla_auto_jit: wanted an integer"),
        ("--tf_xla_min_cluster_size=0", "--tf_xla_min_cluster_size=0: wanted an integer of at least 1"),
        ("--tf_xla_clustering_debug=maybe", "--tf_xla_clustering_debug=maybe: wanted true or false"),
        ("--xla_generate_hlo_graph=(", "--xla_generate_hlo_graph=(: wanted a regular expression"),
    ],
)
def test_a_value_without_sense(environment, text, message):
    environment.setenv(flags.VARIABLE, text)
    flags.take()  # an import does not fail
    with pytest.raises(InvalidArgument) as caught:
        flags.current()
    assert caught.value.message.startswith(f"TF_XLA_FLAGS: {message}")


def test_the_import_takes_them(environment):
    environment.setenv(flags.VARIABLE, "--xla_generate_hlo_graph=.* --tf_xla_other=1")
    program = (
        "import axla.tensorflow, os, sys\n"
        "from axla.tensorflow.clusters import flags\n"
        "assert 'tensorflow' not in sys.modules\n"
        "print(os.environ['TF_XLA_FLAGS'], flags.current().generate_hlo_graph)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["--tf_xla_other=1", ".*"]


MODULE = """HloModule cluster_0
ENTRY main { x = f32[4] parameter(0) ROOT y = f32[4] add(x, x) }"""


def test_a_picture(environment, tmp_path, capsys):
    environment.setenv(flags.VARIABLE, "--xla_generate_hlo_graph=cluster_0")
    environment.setattr(flags, "_pictures", flags.itertools.count())
    flags.picture(axla.parse(MODULE), 1)
    path = tmp_path / "hlo_graph_0.dot"
    assert capsys.readouterr().err == (
        "computation cluster_0[_XlaCompiledKernel=true,_XlaNumConstantArgs=1].v2 "
        f"[CPU: pipeline start, before inline]: {path}\n"
    )
    assert path.read_text().startswith('digraph "cluster_0"')
    flags.picture(axla.parse(MODULE.replace("cluster_0", "cluster_1")), 1)
    assert capsys.readouterr().err == ""


def test_dumps_of_graphs(environment, tmp_path, capsys):
    environment.setenv("TF_DUMP_GRAPH_PREFIX", str(tmp_path / "graphs"))
    flags.dump("before", lambda: "not wanted")
    assert not (tmp_path / "graphs").exists()
    environment.setenv(flags.VARIABLE, "--tf_xla_clustering_debug")
    for text in ("one", "two"):
        flags.dump("before", lambda text=text: text)
    assert (tmp_path / "graphs" / "before.pbtxt").read_text() == "one"
    assert (tmp_path / "graphs" / "before_1.pbtxt").read_text() == "two"
    environment.setenv("TF_DUMP_GRAPH_PREFIX", "-")
    flags.dump("after", lambda: "three")
    assert capsys.readouterr().err == "*** after.pbtxt\nthree\n"


def test_a_folder_that_cannot_be_written(environment, tmp_path):
    environment.setenv(flags.VARIABLE, "--tf_xla_clustering_debug")
    (tmp_path / "before.pbtxt").mkdir()
    environment.setenv("TF_DUMP_GRAPH_PREFIX", str(tmp_path))
    with pytest.raises(InvalidArgument, match="cannot write"):
        flags.dump("before", lambda: "")
