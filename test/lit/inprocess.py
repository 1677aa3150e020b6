"""A lit test format that runs ``[not] hespas-opt ARGS [2>&1] | filecheck ARGS`` in lit's worker."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import shlex
import sys
from dataclasses import dataclass

import lit.formats
import lit.Test
import lit.TestRunner

TOOLS = {
    "hespas": "hespas.tools.hespas",
    "hespas-opt": "hespas.tools.hespas_opt",
    "hespas_mlir_analyzer": "hespas.tools.published.hespas_mlir_analyzer",
}
PLAIN = re.compile(r"[^;&<>`$*?{}]*")


@dataclass
class Command:
    """One stage of a pipe: the words, and whether it must fail."""

    words: list[str]
    fails: bool
    merges: bool


def commands(line: str) -> list[Command] | None:
    """The stages of a RUN line, or None where it wants a real shell."""
    found = []
    for part in re.split(r"\s\|\s", line):
        merges = part.rstrip().endswith("2>&1")
        part = part.replace("2>&1", "")
        bare = re.sub(r"""'[^']*'|"[^"]*\"""", "", part)
        words = shlex.split(part)
        fails = bool(words) and words[0] == "not"
        words = words[1:] if fails else words
        if not words or not PLAIN.fullmatch(bare) or words[0] not in (*TOOLS, "filecheck"):
            return None
        found.append(Command(words, fails, merges))
    return found


class InProcess(lit.formats.ShTest):
    """``ShTest`` that runs what it can without a shell."""

    def __init__(self) -> None:
        super().__init__(execute_external=False)

    def execute(self, test, litConfig):
        script = lit.TestRunner.parseIntegratedTestScript(test)
        if isinstance(script, lit.Test.Result):
            return script
        folder, base = lit.TestRunner.getTempPaths(test)
        os.makedirs(folder, exist_ok=True)
        substitutions = lit.TestRunner.getDefaultSubstitutions(test, folder, base)
        lines = lit.TestRunner.applySubstitutions(script, substitutions)
        plain = []
        for line in lines:
            text = re.sub(r"%dbg\([^)]*\)|^\s*:\s*'[^']*';?", "", str(line)).strip()
            stages = commands(text)
            if stages is None:
                return super().execute(test, litConfig)
            plain.append((text, stages))
        for text, stages in plain:
            problem = run_pipe(stages)
            if problem:
                return lit.Test.Result(lit.Test.FAIL, f"RUN: {text}\n{problem}")
        return lit.Test.Result(lit.Test.PASS, "")


def run_pipe(stages: list[Command]) -> str:
    """Run the stages, each on the output of the one before; "" or what went wrong."""
    data = ""
    for stage in stages:
        code, out, err = run_one(stage, data)
        if (code != 0) != stage.fails:
            return f"{stage.words[0]} exited with {code}\n{out[-4000:]}\n{err}"
        data = err + out if stage.merges else out
    return ""


def run_one(stage: Command, data: str) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of one tool with ``data`` as its input."""
    out, err = Stream(), Stream()
    stdin = sys.stdin
    sys.stdin = Stream(data)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            if stage.words[0] == "filecheck":
                code = filecheck(stage.words[1:])
            else:
                from hespas.tools import console_scripts

                tool = importlib.import_module(TOOLS[stage.words[0]])
                code = console_scripts.run_tool_main(tool.main, stage.words[1:])
    finally:
        sys.stdin = stdin
    return code, out.text(), err.text()


class Stream(io.TextIOWrapper):
    """A text stream in memory with a ``buffer``, as the standard streams have."""

    def __init__(self, data: str = "") -> None:
        super().__init__(
            io.BytesIO(data.encode(errors="surrogateescape")), encoding="utf-8", write_through=True
        )

    def text(self) -> str:
        self.flush()
        return self.buffer.getvalue().decode(errors="surrogateescape")  # type: ignore[attr-defined]


def filecheck(words: list[str]) -> int:
    """filecheck's own main, on ``sys.stdin``."""
    from filecheck.matcher import Matcher
    from filecheck.options import parse_argv_options

    return Matcher.from_opts(parse_argv_options(["filecheck", *words])).run()
