"""The tools of hespas run in this process: ten times faster than a process for each command."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

TOOLS = {
    "hespas": "hespas.tools.hespas",
    "hespas-opt": "hespas.tools.hespas_opt",
}
PLAIN = re.compile(r"[^;&<>`$*?{}|]*")
# Of a line for a shell, these stages run in bash, and tools take their redirections from here.
UTILITIES = (
    "cat", "cmp", "cp", "diff", "env", "grep", "ls", "mkdir", "printf", "rm", "sed", "touch",
)  # fmt: skip
REDIRECTION = re.compile(r"\s(2>|>|<)\s*(?!&)(\S+)")
BASH = ("bash", "-euo", "pipefail", "-c")


@dataclass
class ToolCommand:
    """One stage of a pipe: its words, whether it must fail, and whether stderr joins stdout."""

    words: list[str]
    fails: bool
    merges: bool


@dataclass
class ToolOutput:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


def parse_pipe(line: str) -> list[ToolCommand] | None:
    """Return the stages of ``[not] TOOL ARGS [2>&1] | ...``, or None if the line needs a shell."""
    stages = []
    for part in re.split(r"\s\|\s", line):
        merges = part.rstrip().endswith("2>&1")
        part = part.replace("2>&1", "")
        bare = re.sub(r"""'[^']*'|"[^"]*\"""", "", part)
        if not PLAIN.fullmatch(bare):
            return None
        words = shlex.split(part, comments=True)
        fails = bool(words) and words[0] == "not"
        words = words[1:] if fails else words
        if not words or words[0] not in (*TOOLS, "filecheck"):
            return None
        stages.append(ToolCommand(words, fails, merges))
    return stages


def run_command(command: ToolCommand, data: str = "") -> ToolOutput:
    """Run one tool with ``data`` as its input."""
    out, err = Stream(), Stream()
    stdin, environment = sys.stdin, dict(os.environ)
    sys.stdin = Stream(data)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            if command.words[0] == "filecheck":
                code = _run_filecheck(command.words[1:])
            else:
                from hespas.tools import console_scripts

                tool = importlib.import_module(TOOLS[command.words[0]])
                code = console_scripts.run_tool_main(tool.main, command.words[1:])
    finally:
        sys.stdin = stdin
        os.environ.clear()  # a flag that workers must know changes the environment
        os.environ.update(environment)
    return ToolOutput(code, out.text(), err.text())


def run_pipe(stages: list[ToolCommand], data: str = "") -> str:
    """Run each stage on the output of the one before, the first on ``data``.

    Returns what went wrong, or "".
    """
    for stage in stages:
        done = run_command(stage, data)
        if (done.code != 0) != stage.fails:
            return f"{stage.words[0]} exited with {done.code}\n{done.out[-4000:]}\n{done.err}"
        data = done.err + done.out if stage.merges else done.out
    return ""


def needs_shell(line: str) -> bool:
    """Return whether ``run_line`` does not know a command of a line."""
    return any(
        part.removeprefix("not ").split()[0] not in (*UTILITIES, "cd")
        and parse_pipe(REDIRECTION.sub("", part)) is None
        for step in line.split(" && ")
        for part in step.split(" | ")
    )


def run_line(line: str) -> str:
    """Run the pipes of tools and utilities that ``&&`` joins, each with redirections to files.

    Tools run in this process, and utilities in bash; ``env TOOL`` is a process of its own, for a
    tool that must not know what this process has read. Returns what went wrong, or "".
    """
    with contextlib.chdir(Path.cwd()):
        for step in line.split(" && "):
            if step.startswith("cd "):
                os.chdir(step.removeprefix("cd "))
                continue
            data = ""
            for part in step.split(" | "):
                done, fails = _run_part(part, data)
                if (done.code != 0) != fails:
                    return f"{part}: exited with {done.code}\n{done.out[-4000:]}\n{done.err}"
                data = done.out
    return ""


def _run_part(part: str, data: str) -> tuple[ToolOutput, bool]:
    """Run one stage on ``data``; returns what it printed, and whether it must fail."""
    stages = parse_pipe(REDIRECTION.sub("", part))
    if stages is None:
        command = part.removeprefix("not ")
        raw = data.encode(errors="surrogateescape")
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        made = subprocess.run(
            [*BASH, command], input=raw, env={**os.environ, "PATH": path}, capture_output=True,
            check=False,
        )  # fmt: skip
        texts = [text.decode(errors="surrogateescape") for text in (made.stdout, made.stderr)]
        return ToolOutput(made.returncode, *texts), command != part
    files = dict(REDIRECTION.findall(part))
    if "<" in files:
        data = Path(files["<"]).read_text(errors="surrogateescape")
    (stage,) = stages
    done = run_command(stage, data)
    if stage.merges:
        done = ToolOutput(done.code, done.err + done.out, "")
    for sign, text in ((">", done.out), ("2>", done.err)):
        if sign in files:
            Path(files[sign]).write_text(text, errors="surrogateescape")
    return ToolOutput(done.code, "" if ">" in files else done.out, done.err), stage.fails


class Stream(io.TextIOWrapper):
    """A text stream in memory with a ``buffer``, as the standard streams have."""

    def __init__(self, data: str = "") -> None:
        super().__init__(
            io.BytesIO(data.encode(errors="surrogateescape")), encoding="utf-8", write_through=True
        )

    def text(self) -> str:
        self.flush()
        return self.buffer.getvalue().decode(errors="surrogateescape")  # type: ignore[attr-defined]


def _run_filecheck(words: list[str]) -> int:
    """Run filecheck's own main on ``sys.stdin``."""
    from filecheck.matcher import Matcher
    from filecheck.options import parse_argv_options

    return Matcher.from_opts(parse_argv_options(["filecheck", *words])).run()
