"""Errors name the file of a program and the lines of its instructions."""

import pickle

import pytest

import axla
from axla.core.errors import ParseError, UnsupportedError, VerifyError
from axla.ir.verify import verify

WRONG = """HloModule m

ENTRY e {
  a = f32[11] parameter(0)
  b = f32[3] slice(a), slice={[0:4]}
  ROOT c = f32[11] add(a, a)
}
"""


def test_errors_of_the_verifier_have_file_and_line(tmp_path):
    file = tmp_path / "wrong.hlo"
    file.write_text(WRONG)
    for check in (verify, axla.compile, lambda m: axla.compile(m, backend="interpreter")):
        with pytest.raises(VerifyError) as caught:
            check(axla.parse(file))
        assert str(caught.value).startswith(f"{file}: line 5: %b = f32[3] slice(%a): the shape is f32[3]")
        assert str(caught.value) == caught.value.message == str(pickle.loads(pickle.dumps(caught.value)))


def test_text_without_a_file_has_lines_too():
    with pytest.raises(VerifyError, match=r"^line 5: %b = "):
        verify(axla.parse(WRONG))


def test_errors_that_show_two_instructions_have_both_lines():
    text = """ENTRY e {
      a = f32[4] parameter(0)
      b = f32[4] all-reduce(a), to_apply={ x = f32[] parameter(0) y = f32[] parameter(1)
        ROOT z = f32[] add(x, y) }, constrain_layout=true
      ROOT c = f32[4] all-reduce(b), to_apply={ x = f32[] parameter(0) y = f32[] parameter(1)
        ROOT z = f32[] add(x, y) }
    }"""
    with pytest.raises(VerifyError, match=r"^line \d, line \d: .*module_constrained_layouts"):
        verify(axla.parse(text))


@pytest.mark.parametrize(
    "name, content, message",
    [
        (
            "a.hlo",
            "ENTRY e {\n  ROOT a = f32[] parametr(0)\n}",
            "'parametr' is not an opcode; did you mean parameter? (",
        ),
        ("a.mlir", "func.func @main( {", "at line 1, column"),
        ("a.pb", b"\xff\xff\xff", "the content is not UTF-8 text"),
    ],
)
def test_errors_of_all_readers_name_the_file(tmp_path, name, content, message):
    file = tmp_path / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ParseError) as caught:
        axla.parse(file)
    assert str(caught.value).startswith(f"{file}: ") and message in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("verb", ["run", "opt", "check", "convert"])
def test_commands_name_the_file(tmp_path, capsys, verb):
    from axla.tools.main import main

    file = tmp_path / "wrong.hlo"
    file.write_text("ENTRY e {\n  ROOT a = f32[] parametr(0)\n}")
    assert main([verb, str(file), *(["--to=hlo", "-"] if verb == "convert" else [])]) == 1
    assert capsys.readouterr().err.startswith(f"axla: error: {file}: 'parametr' is not an opcode; did")


def test_what_the_backend_does_not_do_has_its_line(tmp_path):
    file = tmp_path / "call.hlo"
    file.write_text(
        'ENTRY e {\n  a = f32[] parameter(0)\n  ROOT c = f32[] custom-call(a), custom_call_target="none"\n}'
    )
    with pytest.raises(UnsupportedError) as caught:
        axla.compile(axla.parse(file))
    assert str(caught.value).startswith(f"{file}: ")


def test_ten_thousand_lines_cost_what_they_are_long():
    lines = "\n".join(f"  x{k} = f32[] negate(x{k - 1})" for k in range(1, 10_000))
    module = axla.parse(f"ENTRY e {{\n  x0 = f32[] parameter(0)\n{lines}\n}}")
    instructions = list(module.entry.instructions)
    assert [module.lines[i.id] for i in instructions] == list(range(2, 10_002))
