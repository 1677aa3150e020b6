"""Rewriting of HLO text, to preserve what XLA's importer loses: the schedule and async tuples.

XLA prints one instruction on each line, so the rewriting works on lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

IN_FLIGHT = "hespas_async"  # frontend attribute on both ends of an asynchronous collective
_INSTRUCTION = re.compile(r"^  (?:ROOT )?%(?P<name>\S+) = (?P<rest>.*)$")
_OPCODE = re.compile(r"[ )}\]]([a-z][a-z0-9-]*)\(")
_START = re.compile(r"(all-gather|all-reduce|all-to-all)-start")
_SOURCE = re.compile(
    r'source_file="(?P<file>(?:[^"\\]|\\.)*)" source_line=(?P<line>\d+)'
    r"(?:[^}]*? source_column=(?P<column>\d+))?"
)
_UNORDERED = ("parameter", "constant")
_TRAILING_ATTRIBUTES = (", metadata={", ", backend_config=")  # new attributes precede these


def add_schedule_dependencies(text: str) -> str:
    """Add a control dependency of each instruction on the previous one in the schedule.

    The importer orders instructions by their dependencies and not by the schedule. It respects
    control dependencies, and its output does not contain them.
    """
    lines, before = [], ""
    for line in text.split("\n"):
        instruction = _INSTRUCTION.match(line)
        if not instruction:
            before = "" if not line.startswith("  ") else before
        elif _parse_opcode(instruction["rest"]) not in _UNORDERED:
            line = _add_predecessor(line, before) if before else line
            before = instruction["name"]
        lines.append(line)
    return "\n".join(lines)


def _add_predecessor(line: str, name: str) -> str:
    present = ", control-predecessors={"
    if present in line:
        return line.replace(present, f"{present}%{name}, ", 1)
    return _add_attribute(line, f"control-predecessors={{%{name}}}")


def _add_attribute(line: str, attribute: str) -> str:
    at = min((i for i in map(line.find, _TRAILING_ATTRIBUTES) if i >= 0), default=len(line))
    return f"{line[:at]}, {attribute}{line[at:]}"


def replace_async_tuples(text: str) -> str:
    """Replace asynchronous collectives with several operands by a collective and a barrier.

    The importer does not support tuples of asynchronous collectives. The collective is placed at
    its start and the barrier at its end; ``IN_FLIGHT`` marks both with the same number.
    """
    lines = text.split("\n")
    starts: dict[str, int] = {}
    pairs: list[tuple[int, int]] = []
    for i, line in enumerate(lines):
        instruction = _INSTRUCTION.match(line)
        if not instruction:
            continue
        opcode = _parse_opcode(instruction["rest"])
        if _START.fullmatch(opcode):
            starts[instruction["name"]] = i
        elif opcode.endswith("-done") and instruction["rest"].startswith("("):
            operand = re.search(rf" {opcode}\(.*?%([^\s,()]+)\)", instruction["rest"])
            if operand and operand[1] in starts:
                pairs.append((starts[operand[1]], i))
    for number, (start, done) in enumerate(pairs):
        mark = f'{IN_FLIGHT}="{number}"'
        first, last = _INSTRUCTION.match(lines[start]), _INSTRUCTION.match(lines[done])
        assert first and last
        kind, begin, finish = (
            last["rest"],
            _parse_opcode(first["rest"]),
            _parse_opcode(last["rest"]),
        )
        kind = kind[: kind.index(f" {finish}(")]
        called = first["rest"][first["rest"].index(f" {begin}(") :]
        called = called.replace(f" {begin}(", f" {begin.removesuffix('-start')}(", 1)
        head = lines[start][: first.start("rest")]
        lines[start] = _add_async_mark(f"{head}{kind}{called}", mark)
        lines[done] = _add_async_mark(lines[done].replace(f" {finish}(", " opt-barrier(", 1), mark)
    return "\n".join(lines)


def _add_async_mark(line: str, mark: str) -> str:
    present = "frontend_attributes={"
    if present in line:
        return line.replace(present, f"{present}{mark},", 1)
    return _add_attribute(line, f"{present}{mark}}}")


def parse_sources(text: str) -> Iterator[tuple[str, str, int, int]]:
    """Find name, file, line and column of the instructions without a name from the framework."""
    for line in text.split("\n"):
        instruction = _INSTRUCTION.match(line)
        if instruction and 'op_name="' not in line:
            place = _SOURCE.search(instruction["rest"])
            if place:
                file = re.sub(r"\\(.)", r"\1", place["file"])
                yield instruction["name"], file, int(place["line"]), int(place["column"] or 0)


def _parse_opcode(rest: str) -> str:
    """Parse the opcode, which precedes the first parenthesis after the type."""
    match = _OPCODE.search(rest)
    return match[1] if match else ""
