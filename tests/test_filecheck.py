"""Tests FileCheck: right checks must hold, and wrong checks must fail."""

import pytest

from filecheck import CheckFailed, checks_of, run_checks

TEXT = "alpha beta\ngamma   delta\nepsilon 12 12\n"


def check(*lines):
    run_checks(checks_of("\n".join(f"// CHECK{line}" for line in lines)), TEXT)


@pytest.mark.parametrize(
    "lines",
    [
        [": alpha", ": delta"],
        [": gamma delta"],
        [": alpha", "-SAME: beta"],
        [": beta", "-NEXT: delta"],
        ["-NOT: delta", ": alpha", "-NOT: alpha", ": gamma"],
        ["-DAG: epsilon", "-DAG: alpha"],
        [": epsilon [[N:[0-9]+]] [[N]]"],
        [": [[N:[0-9]+]]", "-SAME: [[N]]"],
        [": {{g.*a}}", ": epsilon"],
        [": epsilon{{.*$}}"],
    ],
)
def test_holds(lines):
    check(*lines)


@pytest.mark.parametrize(
    "lines",
    [
        [": delta", ": alpha"],
        [": zeta"],
        [": alpha", "-SAME: gamma"],
        [": alpha", "-NEXT: epsilon"],
        [": alpha", "-NOT: gamma", ": epsilon"],
        ["-NOT: epsilon"],
        ["-DAG: alpha", "-DAG: zeta"],
        ["-DAG: 12", "-DAG: 12", "-DAG: 12"],
        [": al.ha"],
        [": [[N]]"],
    ],
)
def test_fails(lines):
    with pytest.raises(CheckFailed):
        check(*lines)


def test_bless_rewrites_exact_output(tmp_path):
    from hlo_tests import run_section, sections_of

    file = tmp_path / "x.hlo"
    code = "ENTRY e { x = f32[] parameter(0) y = f32[] abs(x) ROOT r = f32[] negate(x) }"
    body = f"// RUN: --passes=dce\n{code}\n// OUTPUT\n"
    file.write_text(body + "// stale\n// -----\n" + body)
    for number in range(2):
        with pytest.raises(CheckFailed, match="pytest --bless"):
            run_section(sections_of(file)[number])
        run_section(sections_of(file)[number], bless=True)
        run_section(sections_of(file)[number])
    assert file.read_text().count("negate(%x)") == 2 and "stale" not in file.read_text()


def test_a_rule_that_is_not_needed_fails_its_test(tmp_path):
    from hlo_tests import run_section, sections_of

    file = tmp_path / "x.hlo"
    file.write_text(
        "// TEST: negate_negate\n// RUN: --passes=algsimp\n"
        "ENTRY e { x = f32[] parameter(0) ROOT r = f32[] negate(x) }\n// CHECK: negate(%x)\n"
    )
    with pytest.raises(CheckFailed, match="hold without the rule"):
        run_section(sections_of(file)[0])
