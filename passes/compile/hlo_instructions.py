"""HLO text as instructions that can be changed: parsing and printing.

XLA prints one instruction on each line. What a rewriting does not need to understand (attributes,
literals, the header of the module) stays text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_INSTRUCTION = re.compile(r"^ +(?P<root>ROOT )?%(?P<name>\S+) = (?P<rest>.*)$")
_COMPUTATION = re.compile(r"^(?P<entry>ENTRY )?%(?P<name>\S+) .*\{$")
_INDEX_COMMENT = re.compile(r"/\*index=\d+\*/")
_NAME = re.compile(r"%([\w.\-]+)")
_TRAILING = (", metadata={", ", backend_config=")  # new attributes precede these
_FRONTEND = "frontend_attributes={"


@dataclass(eq=False)
class HloInstruction:
    """One instruction.

    Attributes:
        name: Its name, without "%".
        type: The text of its type.
        operands: The names of its operands; empty for a literal or a parameter.
        literal: The text in the parentheses of a constant or a parameter.
        attributes: The text after the operands; "" or with a leading ", ".
    """

    name: str
    type: str
    opcode: str
    operands: list[str]
    literal: str = ""
    attributes: str = ""
    is_root: bool = False

    def format_line(self) -> str:
        """Return the instruction as XLA prints it."""
        inner = self.literal or ", ".join(f"%{name}" for name in self.operands)
        root = "ROOT " if self.is_root else ""
        return f"  {root}%{self.name} = {self.type} {self.opcode}({inner}){self.attributes}"

    def find_called(self) -> str:
        """Return the name of the computation that a fusion or an async op calls; "" if none."""
        match = re.search(r"\bcalls=%([\w.\-]+)", self.attributes)
        return match[1] if match else ""

    def read_attribute(self, name: str) -> str:
        """Return the value of an attribute without spaces or nested commas; "" if missing."""
        match = re.search(rf", {name}=(\{{[^}}]*\}}|[^,\s]+)", self.attributes)
        return match[1] if match else ""

    def add_attribute(self, text: str) -> None:
        """Add an attribute before the metadata."""
        places = [i for i in map(self.attributes.find, _TRAILING) if i >= 0]
        at = min(places, default=len(self.attributes))
        self.attributes = f"{self.attributes[:at]}, {text}{self.attributes[at:]}"

    def add_frontend_attribute(self, name: str, value: str) -> None:
        """Add a frontend attribute, which XLA's importer keeps on the op."""
        entry = f'{name}="{value}"'
        if _FRONTEND in self.attributes:
            self.attributes = self.attributes.replace(_FRONTEND, f"{_FRONTEND}{entry},", 1)
        else:
            self.add_attribute(f"{_FRONTEND}{entry}}}")


@dataclass(eq=False)
class HloComputation:
    """A computation: its instructions in the order of the text."""

    name: str
    is_entry: bool
    instructions: list[HloInstruction] = field(default_factory=list)

    def find_root(self) -> HloInstruction:
        """Return the root."""
        return next(one for one in self.instructions if one.is_root)

    def list_parameters(self) -> list[HloInstruction]:
        """Return the parameters in the order of their numbers."""
        parameters = [one for one in self.instructions if one.opcode == "parameter"]
        return sorted(parameters, key=lambda one: int(one.literal))


@dataclass(eq=False)
class HloProgram:
    """A module: its header and its computations by name."""

    header: str
    computations: dict[str, HloComputation]

    def find_fusion_body(self, instruction: HloInstruction) -> HloComputation | None:
        """Return the body of a fusion; None if the instruction is none."""
        if instruction.opcode != "fusion":
            return None
        return self.computations.get(instruction.find_called())

    def find_free_channel(self) -> int:
        """Return a channel id above those of all collectives."""
        ids = [
            int(channel)
            for computation in self.computations.values()
            for one in computation.instructions
            if (channel := one.read_attribute("channel_id"))
        ]
        return max(ids, default=0) + 1

    def format_text(self) -> str:
        """Return the module as XLA's parser reads it, without unused computations."""
        parts = [self.header]
        used = self._find_used_names()
        for one in self.computations.values():
            if one.name in used:
                entry = "ENTRY " if one.is_entry else ""
                lines = [instruction.format_line() for instruction in one.instructions]
                parts.append("\n".join([f"{entry}%{one.name} {{", *lines, "}"]))
        return "\n\n".join(parts) + "\n"

    def _find_used_names(self) -> set[str]:
        waiting = [one.name for one in self.computations.values() if one.is_entry]
        used: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name not in used:
                used.add(name)
                for instruction in self.computations[name].instructions:
                    waiting += self._list_called(instruction)
        return used

    def _list_called(self, instruction: HloInstruction) -> Iterator[str]:
        text = instruction.attributes
        if "=%" in text or "={%" in text:
            yield from (name for name in _NAME.findall(text) if name in self.computations)


def parse_hlo_text(text: str) -> HloProgram:
    """Parse the text of an HLO module; raises ValueError for text that XLA did not print."""
    header: list[str] = []
    computations: dict[str, HloComputation] = {}
    current: HloComputation | None = None
    for line in text.split("\n"):
        if current is not None and line.startswith(" "):
            current.instructions.append(_parse_instruction(line))
        elif start := _COMPUTATION.match(line):
            current = HloComputation(start["name"], bool(start["entry"]))
            computations[current.name] = current
        elif line.startswith("}"):
            current = None
        elif not computations:
            header.append(line)
    return HloProgram("\n".join(header).rstrip(), computations)


def _parse_instruction(line: str) -> HloInstruction:
    match = _INSTRUCTION.match(line)
    if not match:
        raise ValueError(f"not an HLO instruction: {line[:200]}")
    rest = match["rest"]
    type_end = _find_closing(rest, 0) + 1 if rest.startswith("(") else rest.index(" ")
    opening = rest.index("(", type_end)
    closing = _find_closing(rest, opening)
    inner = rest[opening + 1 : closing]
    opcode = rest[type_end:opening].strip()
    is_literal = opcode in ("constant", "parameter") or not inner
    return HloInstruction(
        match["name"],
        _INDEX_COMMENT.sub("", rest[:type_end]),
        opcode,
        [] if is_literal else _NAME.findall(inner),
        inner if is_literal else "",
        rest[closing + 1 :],
        bool(match["root"]),
    )


def _find_closing(text: str, opening: int) -> int:
    """Return the position of the parenthesis that closes the one at ``opening``."""
    depth, at = 0, opening
    for match in re.compile(r'[()]|"(?:[^"\\]|\\.)*"').finditer(text, opening):
        character, at = match[0], match.start()
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return at
    raise ValueError(f"unbalanced parentheses in HLO: {text[:200]}")


def split_tuple_type(text: str) -> list[str]:
    """Return the types of the elements of a tuple type, or the type itself."""
    if not text.startswith("("):
        return [text]
    parts, depth, start = [], 0, 1
    for at, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if (character == "," and depth == 1) or depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
            if depth == 0:
                break
    return [part for part in parts if part]


def join_tuple_type(types: list[str]) -> str:
    """Return the tuple type of several types, or the only one."""
    return types[0] if len(types) == 1 else f"({', '.join(types)})"


def parse_array_type(text: str) -> tuple[str, tuple[int, ...]]:
    """Return the element type and the dimensions of an array type such as ``f32[8,128]{1,0}``."""
    match = re.match(r"(\w+)\[([\d,]*)\]", text)
    if not match:
        raise ValueError(f"not an array type: {text}")
    return match[1], tuple(int(size) for size in match[2].split(",") if size)
