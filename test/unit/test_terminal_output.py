"""What a command prints: control characters escaped, and one line for whatever ends it."""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from pathlib import Path

import pytest

from hespas.dialects.mlir import make_context
from hespas.frontends import parse_module
from hespas.support import text_tables
from hespas.support.entry_points import load_import_path
from hespas.support.errors import HespasError, UsageError
from hespas.support.terminal_text import EscapingStream, escape_cell, escape_controls
from hespas.support.text_tables import TextTable
from hespas.tools import hespas as hespas_tool
from hespas.tools.console_scripts import EXIT_ERROR, run_tool_main
from hespas.tools.terminal import print_to_stderr
from hespas.workflows.fusible_ops import has_fusible_pair
from support import traces

HOSTILE = "<b>\x1b]0;pwn\x07\x1b[31m[/red]\u202e\x9b2J\r"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 漢 \t\n", "plain é 漢 \t\n"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\rb\x07\x00", "a\\rb\\x07\\x00"),
        ("\u202eelif", "\\u202eelif"),
        ("\x9b2J", "\\x9b2J"),
        ("\udc80", "\\udc80"),
        ("a\u00a0b", "a\u00a0b"),
    ],
)
def test_controls_are_escaped(text: str, shown: str) -> None:
    assert escape_controls(text) == shown
    assert str(HespasError(text)) == f"error: {shown.rstrip(chr(10))}"
    assert escape_cell("a\n\tb") == "a\\n\\tb"


def test_what_an_encoding_lacks_is_escaped() -> None:
    data = io.BytesIO()
    stream = EscapingStream(io.TextIOWrapper(data, encoding="ascii", write_through=True))
    assert stream.write("é \x1b\n") == 4
    assert data.getvalue() == b"\\xe9 \\x1b\n"


def test_tables_are_lines_of_columns() -> None:
    table = TextTable(f"title {HOSTILE}", [(HOSTILE, "1"), ("a\nb", "2")], ("name", "number"))
    for text in (
        text_tables.format_plain_table(table),
        text_tables.format_markdown_tables([table]),
    ):
        assert not CONTROLS.search(text.replace("\n", ""))
    assert len(text_tables.format_plain_table(table).splitlines()) == 4


class Terminal:
    """A stream that says that it is a terminal."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_styles_and_no_others(monkeypatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    table = TextTable("title", [(HOSTILE, "1")], ("name", "number"))

    def main(argv) -> int:
        text_tables.print_tables([table])
        print_to_stderr(HOSTILE)
        print(HOSTILE, file=sys.stderr)
        return 0

    assert run_tool_main(main, []) == 0
    assert "\x1b[1m" in terminal.text  # rich's
    assert "\x1b]" not in terminal.text and "\x1b[31m" not in terminal.text
    assert "\x07" not in terminal.text and "\x9b" not in terminal.text
    assert terminal.text.count("\\x1b]0;pwn\\x07\\x1b[31m") == 3


def test_commands_escape_names_of_programs(tmp_path, monkeypatch, capsys) -> None:
    """Those of locations, files, traces and notes, wherever a command prints them."""
    monkeypatch.chdir(tmp_path)
    name = "jit(f)/\\1B]0;pwn\\07\\1B[31m/dot"
    Path("m\x1b[31m.mlir").write_text(
        "func.func public @main(%a: tensor<64x64xf32>) -> tensor<64x64xf32> {\n"
        "%0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0]"
        f' : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("{name}")\n'
        "return %0 : tensor<64x64xf32>\n}\n"
    )
    commands = [
        ["run", "--mlir", "m\x1b[31m.mlir", "--node", "H100_80GB", "--output", "out\x1b[31m"],
        ["show", "out\x1b[31m", "--depth", "9"],
        ["compare", "out\x1b[31m", "out\x1b[31m"],
    ]
    for command in commands:
        assert run_tool_main(hespas_tool.main, command) == 0
        shown = capsys.readouterr()
        assert not CONTROLS.search((shown.out + shown.err).replace("\n", ""))
    folder = traces.save(tmp_path / "w", [[traces.node(0, traces.COMP, x=("string", HOSTILE))]])
    assert run_tool_main(hespas_tool.main, ["trace", "print", str(folder / "dev.0.et")]) == 0
    assert not CONTROLS.search(capsys.readouterr().out.replace("\n", ""))


class Stop(BaseException):
    pass


@pytest.mark.parametrize("error", [SystemExit(3), SystemExit(), Stop("so")])
def test_code_that_ends_the_process_is_named(error, capsys) -> None:
    def main(argv) -> int:
        raise error

    assert run_tool_main(main, []) == EXIT_ERROR
    assert re.match(
        rf"{re.escape(__file__)}:\d+: error: this code ended hespas with "
        rf"{type(error).__name__}.*; correct or uninstall its package\n$",
        capsys.readouterr().err,
    )


def test_help_still_exits() -> None:
    with pytest.raises(SystemExit) as raised:
        run_tool_main(hespas_tool.main, ["run", "--help"])
    assert not raised.value.code


@pytest.mark.parametrize(
    "statement", ["raise SystemExit(3)", "import sys; sys.exit()", "raise Stop"]
)
def test_a_package_that_ends_the_process_on_import(statement, tmp_path, monkeypatch) -> None:
    (tmp_path / "leaving_package.py").write_text(f"class Stop(BaseException): ...\n{statement}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UsageError, match=r"the pass leaving_package:X cannot be imported: (Sy|St)"):
        load_import_path("leaving_package:X", "pass")


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (
            OSError(errno.EMFILE, os.strerror(errno.EMFILE)),
            "error: too many open files; allow",
        ),
        (OSError(errno.ENFILE, os.strerror(errno.ENFILE), "m.py"), "error: too many open files"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "<stdout>: error: No space left"),
        (OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)), "error: Resource temporarily"),
        (OSError(errno.ENOENT, os.strerror(errno.ENOENT), "x"), "x: error: No such file"),
    ],
)
def test_errors_of_the_system(error, problem, capsys) -> None:
    def main(argv) -> int:
        raise error

    assert run_tool_main(main, []) == EXIT_ERROR
    assert capsys.readouterr().err.startswith(problem)


def test_too_few_open_files_are_no_fault_of_a_package(monkeypatch) -> None:
    def import_module(name: str) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("importlib.import_module", import_module)
    with pytest.raises(OSError, match="Too many open files"):
        load_import_path("some:X", "pass")


@pytest.mark.parametrize(("op", "fuses"), [("named_computation", False), ("composite", True)])
def test_ops_with_an_attribute_called_name(op, fuses) -> None:
    """The bindings of these ops return that attribute for ``name``."""
    call = {
        "named_computation": 'sdy.named_computation<"f">(%a) (%b: tensor<8xf32>) {\n'
        "%1 = stablehlo.add %b, %b : tensor<8xf32>\nsdy.return %1 : tensor<8xf32>\n}"
        " : (tensor<8xf32>) -> tensor<8xf32>",
        "composite": 'stablehlo.composite "n.f" %a {decomposition = @f}'
        " : (tensor<8xf32>) -> tensor<8xf32>",
    }[op]
    text = (
        f"func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {{\n%0 = {call}\n"
        "%2 = stablehlo.negate %0 : tensor<8xf32>\nreturn %2 : tensor<8xf32>\n}\n"
        "func.func private @f(%a: tensor<8xf32>) -> tensor<8xf32> {\n"
        "return %a : tensor<8xf32>\n}\n"
    )
    module = parse_module(text.encode(), "m.mlir", make_context())
    assert has_fusible_pair(module) is fuses
