"""docs/tensorflow-jit.md is run as it is written, and so is the tutorial in examples/tensorflow."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import axla.tensorflow
import tensorflow as tf
from axla.core.errors import InvalidArgument

ROOT = Path(__file__).resolve().parents[2]


def test_the_page(tmp_path):
    text = (ROOT / "docs" / "tensorflow-jit.md").read_text()
    program = "\n".join(re.findall(r"```python\n(.*?)```", text, re.S))
    (tmp_path / "page.py").write_text(program)
    done = subprocess.run([sys.executable, "page.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "[2. 4.]" in done.stdout and "cluster_0" in done.stdout
    assert list((tmp_path / "pictures").glob("cluster_0_*.dot"))
    assert json.loads((tmp_path / "timeline.ctf.json").read_text())["traceEvents"]


def test_the_tutorial_has_one_course_of_losses(tmp_path):
    pytest.importorskip("sklearn")
    main = runpy.run_path(str(ROOT / "examples" / "tensorflow" / "mnist_softmax.py"))["main"]
    plain, whole, scope = (
        main([*arguments, "--timeline", str(tmp_path / f"{number}.json")])
        for number, arguments in enumerate((["--xla=false"], [], ["--scope"]))
    )
    np.testing.assert_allclose(whole, plain, rtol=1e-4)
    np.testing.assert_allclose(scope, plain, rtol=1e-4)
    assert plain[-1] < plain[0] / 5
    operations = []
    for number in range(3):
        events = json.loads((tmp_path / f"{number}.json").read_text())["traceEvents"]
        operations.append([event["name"] for event in events if event.get("cat") == "Op"])
    assert any("MatMul" in name for name in operations[0]) and "AxlaLaunch cluster_0" not in operations[0]
    for found in operations[1:]:
        assert not any(name.startswith("_Xla") for name in found)  # TensorFlow compiles nothing itself
        assert "AxlaLaunch cluster_0" in found and not any("MatMul" in name for name in found)


def test_explain_says_why():
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None], name="x")
        y = tf.tanh(tf.sin(x) * 2 + 1)
        text = tf.strings.as_string(y, name="text")
    with axla.tensorflow.Session(graph=graph, jit="auto") as session:
        session.run(text, {x: [1, 2]})
        report = axla.tensorflow.explain(session)
    assert [cluster.name for cluster in report.clusters] == ["cluster_0"]
    reasons = {one.node.name: one.reason for one in report.outside}
    assert "text" in reasons and "Tanh" not in reasons
    line = f"{__file__}:{test_explain_says_why.__code__.co_firstlineno + 4}"
    assert f"node 'text' (AsString, {line}): axla has no such operation" in str(report)
    assert "compiled for f32[2]" in str(report)
    double = axla.tensorflow.jit(lambda x: tf.tanh(x) * 2)
    double(tf.ones(5))
    assert "compiled for f32[5]" in str(axla.tensorflow.explain(double))
    with pytest.raises(InvalidArgument, match="explain: found int"):
        axla.tensorflow.explain(3)
