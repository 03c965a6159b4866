"""The options of a library: one declaration for the function, its help and the command line."""

from __future__ import annotations

import inspect

import pytest

import axla.aot
from axla.aot.options import FIELDS, flags
from axla.tools.main import main


def test_the_signature_lists_every_option():
    parameters = inspect.signature(axla.aot.compile).parameters
    assert list(parameters) == ["program", "args", "out", *FIELDS]
    assert parameters["weights"].default == "object" and parameters["self_test"].default is True
    help_ = inspect.getdoc(axla.aot.compile)
    assert help_ is not None and all(f"\n    {name}: " in help_ for name in FIELDS)


def test_the_command_line_has_a_flag_for_each(capsys):
    with pytest.raises(SystemExit):
        main(["compile", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for flag, told in flags().items():
        assert f"{flag} " in shown and told["help"].split()[0] in shown
    own = {"--arg-names", "--result-names", "--arg-types", "--dim-args"}  # of names, arg_types and dim_args
    assert all(flag in shown for flag in own)
    assert FIELDS.keys() - {told["dest"] for told in flags().values()} == {"names", "arg_types", "dim_args"}


def test_another_option_is_refused(tmp_path):
    with pytest.raises(axla.InvalidArgument, match="no option 'wieghts'; .*did you mean weights"):
        axla.aot.compile("", out=tmp_path / "out", wieghts="file")
    with pytest.raises(axla.InvalidArgument, match="weights='elsewhere'; there are object, separate, file"):
        axla.aot.compile("", out=tmp_path / "out", weights="elsewhere")
