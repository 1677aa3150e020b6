"""The examples in the README and the docs run, and the output they show is what comes out.

Fenced blocks: ``sh`` runs commands of hespas, or a script in bash, ``python`` runs a program, both
in one folder for each page. A ``text`` block after one shows its output: all of it, or all of its
standard output. Of an output that is too long the command prints a part (``| head``, ``| grep``),
so that a reader sees what the page shows. ``LANGUAGE=FILE`` writes the file. ``sh norun`` is not
run; ``sh fails`` must end with exit code 1; ``sh nightly``, which takes minutes, runs at night.

What differs between two runs (``VOLATILE``) is not compared, nor are numbers that are measured on
this machine (``MEASURED``). What XLA makes of a program differs between its releases: with another
one than that of the docs, only lines without a number are compared.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import io
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from support.budgets import PROFILE
from support.paths import ROOT
from support.record import WRITES, check_record, hide_places
from support.tool_commands import ToolOutput, parse_pipe, run_command
from support.versions import JAXLIB

DOCUMENTED_JAXLIB = (0, 10)
WRITE_REMEDY = "if it is right, run make record-write, which writes what the pages show"
FIGURE = re.compile(r"[-+]?\d[\d,.]*(?:e-\d+)?|\b(?:[num]?s|[kMGT]?(?:B|FLOP))\b")
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])
IMAGES = ROOT / "docs" / "images"
PICTURE = re.compile(r"!\[[^\]]*\]\((?:\.\./)?images/([\w-]+\.svg)\)")
BLOCK = re.compile(r"^```(\w[^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(match[1].strip(), match[2]) for match in BLOCK.finditer(page.read_text())]


SHELL = ("sh", "sh fails", *(["sh nightly"] if PROFILE == "nightly" else []))
RUNNABLE = [p for p in PAGES if any(kind in (*SHELL, "python") for kind, _ in blocks(p))]


def list_comparable_lines(text: str, *, measured: bool) -> list[str]:
    """List the lines of an output without what may differ between two runs, and places."""
    lines = [" ".join(mask_volatile(line, "#").split()) for line in text.strip().splitlines()]
    if JAXLIB != DOCUMENTED_JAXLIB:
        return [line for line in lines if not re.search(r"\d", line)]
    return [MEASURED_WORDS.sub("#", line) for line in lines] if measured else lines


def mask_volatile(line: str, mark: str = "...") -> str:
    return VOLATILE.sub(mark, hide_places(line))


def shows_output(block: str, done: ToolOutput, *, measured: bool = False) -> bool:
    """Return whether a block is the whole output of a command, or its whole standard output."""
    shown = list_comparable_lines(block, measured=measured)
    return any(
        shown == list_comparable_lines(text, measured=measured)
        for text in (done.out, done.out + done.err)
    )


@pytest.mark.slow
@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: name_page(page))
def test_examples_run(page, tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "examples").symlink_to(ROOT / "docs" / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # a program may import a file that the page has shown
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("CI", "BUILD_NUMBER", "PYTEST_ADDOPTS"):  # they change what pytest prints
        monkeypatch.delenv(name, raising=False)
    # The entry point of the plug-in, for an installation that is older than it.
    monkeypatch.setenv("PYTEST_PLUGINS", "hespas.tools.pytest_plugin")
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    done, printed = None, {}
    measured = page.name in MEASURED_PAGES
    for kind, text in blocks(page):
        if kind in (*SHELL, "python"):
            done = run_python(text) if kind == "python" else run_script(text)
            output = done.out + done.err
            measured = page.name in MEASURED_PAGES or bool(MEASURED.search(text + output))
            lines = [] if measured else list_figure_lines(output)
            printed[f"{len(printed) + 1}: {text.splitlines()[0]}"] = lines
            assert done.code == (kind == "sh fails"), f"{text}\n{output}"
        elif kind == "sh nightly":
            done = None
        elif "=" in kind:
            file = Path(kind.split("=")[1])
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            sys.modules.pop(file.stem if file.suffix == ".py" else "", None)
        elif kind == "text" and done and not shows_output(text, done, measured=measured):
            whole = done.out + done.err
            assert WRITES and not measured, f"expected\n{text}\nbut\n{whole}\n{WRITE_REMEDY}"
            shown = f"```text\n{text}```"
            page.write_text(page.read_text().replace(shown, shown.replace(text, show(done, text))))
    check_pictures(page, tmp_path)
    # The record is written by day.
    if page.name not in MEASURED_PAGES and "sh nightly" not in dict(blocks(page)):
        check_record("documentation", name_page(page), printed)


def show(done: ToolOutput, old: str) -> str:
    """Return an output as a page shows it; what may differ between two runs stays as it was."""
    kept = {mask_volatile(line): line for line in old.splitlines()}
    texts = [text.strip("\n").splitlines() for text in (done.out, done.out + done.err)]
    whole = max(texts, key=lambda lines: rate_likeness([*map(mask_volatile, lines)], [*kept]))
    return "".join(f"{kept.get(mask_volatile(line), hide_places(line))}\n" for line in whole)


def rate_likeness(first: list[str], second: list[str]) -> float:
    """Return the share of lines that two outputs have in common."""
    return difflib.SequenceMatcher(None, first, second).ratio()


def check_pictures(page: Path, folder: Path) -> None:
    """Compare the pictures of a page with those that its examples have drawn, or write them.

    They are compared by what is drawn: versions of the plotting library round differently.
    """
    for name in PICTURE.findall(page.read_text()):
        drawn = sorted(folder.glob(f"**/{name}"))
        if drawn and WRITES:
            (IMAGES / name).write_bytes(drawn[-1].read_bytes())
        elif drawn and JAXLIB == DOCUMENTED_JAXLIB:
            shown = [count_shapes(path.read_text()) for path in (IMAGES / name, drawn[-1])]
            assert shown[0] == shown[1], f"docs/images/{name} is old: {WRITE_REMEDY}"


def count_shapes(svg: str) -> Counter[str]:
    """Count the elements of a picture by their name, and its texts."""
    return Counter(
        [*re.findall(r"<\w+|<!-- [^>]* -->", svg), *re.findall(r">([^<>]*)</text>", svg)]
    )


# Their examples measure on this machine, or print what depends on its packages.
MEASURED_PAGES = ("calibrate.md", "own-estimator.md", "profile.md", "simulator-zigzag.md")
# What differs between two runs: times and memory of the work itself, and places.
VOLATILE = re.compile(
    r"lowered in .*|Testing Time: .*|(?<=computed) .*|(?<=devices, )[0-9.]+ s:|\"lower_\w+\": .*|"
    r"- \d+ programs.*|[Tt]ook .*|estimating \S+|"
    r"=+ \d+ (passed|failed).*|\S*/pytest-\S*|\b0x[0-9a-f]+|"
    r"\"output_bytes\": \d+|"  # with the length of the path, in locations
    r"digest = \"\w+\"|"  # with a hash of the estimator's sources
    r"device +\S.*, \d+ cores?|(?:AMD|Intel)\b[^,]*, \d+ cores?|"  # of this machine
    r"\d+ min left.*|File \".*|is not installed in .*|\S*es_run_docs\S*"
)
# In the examples and outputs of what is of this machine.
MEASURED = re.compile("deviation of repetitions|hespas measure doctor|--estimator (xla|iree)")
MEASURED_WORDS = re.compile(rf"\b(?:yes|no)\b.*|{FIGURE.pattern}")  # with what is installed
MAX_LINES = 60  # of longer outputs, such as lists of all presets, their digest is recorded


def list_figure_lines(output: str) -> list[str]:
    """Return the lines of an output that have a number, without what differs between two runs."""
    lines = [" ".join(mask_volatile(line).split()) for line in output.splitlines()]
    lines = [line for line in lines if re.search(r"\d", line)]
    if len(lines) <= MAX_LINES:
        return lines
    return [hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]]


def name_page(page: Path) -> str:
    return str(page.relative_to(ROOT))


BASH = ["bash", "-euo", "pipefail", "-c"]
# What concerns the lines after it, so that bash has to run all of them at once.
SHELL_STATE = re.compile(r"<<|^\s*(export|cd|set|if|for|while)\b|^\w+=", re.MULTILINE)


def run_python(text: str) -> ToolOutput:
    """Run a program in this process, or in one of its own.

    The latter is for programs that set the number of JAX's devices, which must precede its first
    use, or load the bindings of another MLIR.
    """
    if "jax.config" in text or "import torch_mlir" in text:
        return run_process([sys.executable, "-c", text])
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(text, "<example>", "exec"), {"__name__": "__main__"})
    return ToolOutput(0, out.getvalue(), "")


def run_script(text: str) -> ToolOutput:
    """Run plain commands of hespas in this process, and all others in bash."""
    lines = [text] if SHELL_STATE.search(text) else text.replace("\\\n", " ").splitlines()
    out = err = ""
    for line in lines:
        if line.strip() and not line.startswith("#"):
            done = run_line(line)
            out, err = out + done.out, err + done.err
            if done.code:
                return ToolOutput(done.code, out, err)
    return ToolOutput(0, out, err)


def run_line(line: str) -> ToolOutput:
    """Run a pipe, of which the tools of hespas run in this process, and utilities in bash."""
    command, _, file = line.partition(" > ")
    stages = re.split(r"\s\|\s", command)
    count = next(
        (k for k in range(len(stages), 0, -1) if parse_pipe(" | ".join(stages[:k])) is not None), 0
    )
    utilities = " | ".join(stages[count:])
    if not count or len(file.split()) > 1 or "hespas" in utilities:
        return run_process([*BASH, line])
    data, err, code = "", "", 0
    for stage in parse_pipe(" | ".join(stages[:count])) or []:
        done = run_command(stage, data)
        data, err, code = done.out, err + done.err, code or done.code
    if utilities:
        done = run_process([*BASH, utilities], data)
        data, err, code = done.out, err + done.err, code or done.code
    if file and not code:
        Path(file.strip()).write_text(data)
        data = ""
    return ToolOutput(code, data, err)


def run_process(command: list[str], data: str = "") -> ToolOutput:
    done = subprocess.run(command, input=data, capture_output=True, text=True, timeout=600)
    return ToolOutput(done.returncode, done.stdout, done.stderr)


def test_links_point_to_files():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)}: {target}"


ELISION = re.compile(r"^\s*\.\.\.$|\s\.\.\.(\s|$)")
BOX_WIDTH = 88  # characters that fit the box of a command, in the narrowest layout of the site


@pytest.mark.parametrize("page", PAGES, ids=lambda page: name_page(page))
def test_no_output_is_elided_and_commands_fit_their_boxes(page):
    """Outputs of commands that are not run, which are compared with nothing, are whole, too."""
    for kind, text in blocks(page):
        lines = text.splitlines()
        if kind == "text" and page.name != "cli.md":  # which the commands themselves write
            assert not [line for line in lines if ELISION.search(line)], text
        elif kind in (*SHELL, "sh nightly", "sh norun"):
            assert not [line for line in lines if len(line) > BOX_WIDTH], text


def test_a_block_is_a_whole_output():
    done = ToolOutput(0, "first\n  second  2 in 1.5 s\n", "note\n")
    assert shows_output("first\nsecond 2 in 1.5 s\n", done)
    assert shows_output("first\nsecond 2 in 1.5 s\nnote\n", done)
    for part in ("first\n", "second 2 in 1.5 s\n", "first\n...\n", "note\n", ""):
        assert not shows_output(part, done)
    assert not shows_output("first\nsecond 3 in 1.5 s\n", done) or JAXLIB != DOCUMENTED_JAXLIB
    assert shows_output("first\nsecond 3 in 9 ms\n", done, measured=True)


def test_an_output_is_written_as_it_is_compared() -> None:
    done = ToolOutput(0, "first 7\n  second  2 in 1.5 s\n", "note 0xab\n")
    assert show(done, "first 1\n  second  2 in 1.5 s\n") == done.out
    assert show(done, "first 1\nsecond\nnote 0xcd\n") == f"{done.out}note 0xcd\n"
