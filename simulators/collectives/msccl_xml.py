"""Reads and writes programs in MSCCL's XML format.

The elements are ``algo`` (name, coll, ngpus, inplace, nchunksperloop), ``gpu`` (id, i_chunks,
o_chunks, s_chunks), ``tb`` (id, send, recv, chan) and ``step`` (s, type, srcbuf, srcoff, dstbuf,
dstoff, cnt, depid, deps).
Source: microsoft/msccl, whose interpreter has nine step types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from hespas.simulators.collectives.collective_program import (
    BUFFERS,
    KINDS,
    ChunkRef,
    CollectiveProgram,
    CollectiveStep,
    RankProgram,
    Threadblock,
    check_program,
    get_buffer_size,
)
from hespas.support.data_files import read_file_bytes
from hespas.support.errors import HespasError

NAMES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
}
CHILD = {"": "algo", "algo": "gpu", "gpu": "tb", "tb": "step"}
DEFAULTS = {"send": "-1", "recv": "-1", "chan": "0", "cnt": "1", "depid": "-1", "deps": "-1"}


@dataclass(slots=True)
class _XmlElement:
    tag: str
    attributes: dict[str, str]
    where: str
    children: list[_XmlElement] = field(default_factory=list)

    def get_attribute_text(self, name: str) -> str:
        if name in self.attributes:
            return self.attributes[name]
        if name in DEFAULTS:
            return DEFAULTS[name]
        raise HespasError(f"<{self.tag}> has no attribute '{name}'", where=self.where)

    def get_attribute_number(self, name: str, default: int | None = None) -> int:
        if default is not None and name not in self.attributes:
            return default
        text = self.get_attribute_text(name)
        try:
            return int(text)
        except ValueError:
            message = f"<{self.tag} {name}={quoteattr(text)}> is not a whole number"
            raise HespasError(message, where=self.where) from None


def read_program(path: Path) -> CollectiveProgram:
    """Read a program from an XML file; raises HespasError with the line of a mistake."""
    return parse_program(read_file_bytes(path), str(path))


def parse_program(data: bytes, where: str) -> CollectiveProgram:
    """Parse a program from XML text; ``where`` names the text in errors."""
    algo = _parse_elements(data, where)
    ranks: dict[int, _XmlElement] = {}
    for gpu in algo.children:
        number = gpu.get_attribute_number("id")
        if number in ranks:
            raise HespasError(f"GPU {number} is defined twice", where=gpu.where)
        ranks[number] = gpu
    count = algo.get_attribute_number("ngpus", len(ranks))
    if len(ranks) != count or sorted(ranks) != list(range(count)):
        gpu_list = _abbreviate_numbers(sorted(ranks)) or "none"
        text = f"the GPUs are {gpu_list}, but ngpus={count} means 0 to {count - 1}"
        raise HespasError(text, where=algo.where)
    parts = max(
        algo.get_attribute_number("nchunksperloop", 0),
        *(
            gpu.get_attribute_number(name, 0)
            for gpu in algo.children
            for name in ("i_chunks", "o_chunks")
        ),
        0,
    )
    kind = algo.get_attribute_text("coll").lower()
    program = CollectiveProgram(
        name=algo.attributes.get("name", "") or Path(where).stem,
        collective=NAMES.get(kind, kind),
        in_place=algo.get_attribute_number("inplace", 0) == 1,
        parts=parts,
        ranks=tuple(
            RankProgram(
                ranks[number].get_attribute_number("s_chunks", 0),
                tuple(map(_read_threadblock, ranks[number].children)),
            )
            for number in range(count)
        ),
        size_limits=(
            algo.get_attribute_number("minBytes", 0), algo.get_attribute_number("maxBytes", 0)
        ),
    )  # fmt: skip
    try:
        check_program(program)
    except HespasError as error:
        raise HespasError(error.message, where=where) from None
    return program


def _parse_elements(data: bytes, where: str) -> _XmlElement:
    """Parse the tree of elements with their lines; a DOCTYPE, and so entities, is an error."""
    root = _XmlElement("", {}, where)
    stack = [root]
    parser = expat.ParserCreate()

    def open_element(tag: str, attributes: dict[str, str]) -> None:
        place = f"{where}:{parser.CurrentLineNumber}"
        wanted = CHILD.get(stack[-1].tag)
        if tag != wanted:
            inside = f"in <{stack[-1].tag}>" if stack[-1].tag else "first"
            hint = f", where <{wanted}> is expected" if wanted else ""
            raise HespasError(f"there is <{tag}> {inside}{hint}", where=place)
        element = _XmlElement(tag, attributes, place)
        stack[-1].children.append(element)
        stack.append(element)

    def refuse_doctype(*_: object) -> None:
        raise HespasError("has a DOCTYPE, which MSCCL programs do not have", where=where)

    parser.StartElementHandler = open_element
    parser.EndElementHandler = lambda _: stack.pop()
    parser.StartDoctypeDeclHandler = refuse_doctype
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        place = f"{where}:{error.lineno}:{error.offset + 1}"
        raise HespasError(f"is not XML: {expat.ErrorString(error.code)}", where=place) from None
    except (LookupError, ValueError) as error:  # the encoding is unknown or wrong
        raise HespasError(f"cannot be read: {error}", where=where) from None
    return root.children[0]


def _read_threadblock(tb: _XmlElement) -> Threadblock:
    steps: list[CollectiveStep] = []
    for element in tb.children:
        number = element.get_attribute_number("s", len(steps))
        if number != len(steps):
            text = f"step {number} comes where step {len(steps)} is expected"
            raise HespasError(text, where=element.where)
        steps.append(_read_step_element(element))
    return Threadblock(
        tb.get_attribute_number("id"),
        tb.get_attribute_number("send"),
        tb.get_attribute_number("recv"),
        tb.get_attribute_number("chan"),
        tuple(steps),
    )


def _read_step_element(element: _XmlElement) -> CollectiveStep:
    kind = element.get_attribute_text("type")
    if kind not in KINDS:
        text = f"there is no step type '{kind}': the types are {', '.join(KINDS)}"
        raise HespasError(text, where=element.where)
    if kind == "nop":
        place = ChunkRef("i", 0)
        return CollectiveStep(kind, place, place, 0, _read_dependencies(element))
    return CollectiveStep(
        kind,
        _read_chunk_ref(element, "src"),
        _read_chunk_ref(element, "dst"),
        element.get_attribute_number("cnt"),
        _read_dependencies(element),
    )


def _read_chunk_ref(element: _XmlElement, side: str) -> ChunkRef:
    buffer = element.get_attribute_text(f"{side}buf")
    if buffer not in BUFFERS:
        text = f"there is no buffer '{buffer}': the buffers are {', '.join(BUFFERS)}"
        raise HespasError(text, where=element.where)
    return ChunkRef(buffer, element.get_attribute_number(f"{side}off"))


def _read_dependencies(element: _XmlElement) -> tuple[tuple[int, int], ...]:
    """Read the (threadblock, step) pairs; lists separated by commas are accepted too."""
    names = [element.get_attribute_text(name).split(",") for name in ("depid", "deps")]
    try:
        blocks, steps = [[int(word) for word in words] for words in names]
        pairs = list(zip(blocks, steps, strict=True))
    except ValueError:
        depid, deps = (",".join(words) for words in names)
        text = f"depid='{depid}' and deps='{deps}' are not lists of equal length"
        raise HespasError(text, where=element.where) from None
    return tuple((block, step) for block, step in pairs if block != -1)


def format_program(program: CollectiveProgram) -> str:
    """Format a program as XML; a step with several dependencies is preceded by ``nop`` steps."""
    kind = {name: short for short, name in NAMES.items() if "_" not in short}
    algo = {
        "name": program.name, "proto": "Simple", "nchannels": _count_channels(program),
        "nchunksperloop": program.parts, "ngpus": len(program.ranks),
        "coll": kind.get(program.collective, program.collective),
        "inplace": int(program.in_place), "outofplace": int(not program.in_place),
        "minBytes": program.size_limits[0], "maxBytes": program.size_limits[1],
    }  # fmt: skip
    lines = [_format_xml_tag("algo", algo)]
    for number, rank in enumerate(program.ranks):
        inputs, outputs, scratch = (get_buffer_size(program, number, buffer) for buffer in BUFFERS)
        gpu = {"id": number, "i_chunks": inputs, "o_chunks": outputs, "s_chunks": scratch}
        lines.append(_format_xml_tag("gpu", gpu, 1))
        numbers = {block.id: _number_steps(block) for block in rank.blocks}
        awaited_steps = {
            pair for block in rank.blocks for step in block.steps for pair in step.depends
        }
        for block in rank.blocks:
            tb = {"id": block.id, "send": block.send, "recv": block.recv, "chan": block.channel}
            lines.append(_format_xml_tag("tb", tb, 2))
            for k, step in enumerate(block.steps):
                at = numbers[block.id][k]
                *others, last = step.depends or ((-1, -1),)
                first = at - len(others)
                for number_, pair in enumerate(others):
                    nop = CollectiveStep("nop", ChunkRef("i", 0), ChunkRef("i", 0), 0)
                    lines.append(_format_step_tag(first + number_, nop, pair, numbers, False))
                lines.append(
                    _format_step_tag(at, step, last, numbers, (block.id, k) in awaited_steps)
                )
            lines.append("    </tb>")
        lines.append("  </gpu>")
    return "\n".join([*lines, "</algo>", ""])


def _number_steps(block: Threadblock) -> list[int]:
    """Return the number of each step of a block in XML, where ``nop`` steps are counted."""
    step_numbers, at = [], 0
    for step in block.steps:
        at += max(0, len(step.depends) - 1)
        step_numbers.append(at)
        at += 1
    return step_numbers


def _format_step_tag(
    at: int,
    step: CollectiveStep,
    pair: tuple[int, int],
    numbers: dict[int, list[int]],
    awaited: bool,
) -> str:
    block, number = pair
    attributes = {
        "s": at, "type": step.kind, "srcbuf": step.source.buffer, "srcoff": step.source.offset,
        "dstbuf": step.target.buffer, "dstoff": step.target.offset, "cnt": step.count,
        "depid": block, "deps": numbers[block][number] if block != -1 else -1,
        "hasdep": int(awaited),
    }  # fmt: skip
    return _format_xml_tag("step", attributes, 3, close=True)


def _format_xml_tag(
    name: str, attributes: Mapping[str, object], depth: int = 0, close: bool = False
) -> str:
    words = " ".join(f"{key}={quoteattr(str(value))}" for key, value in attributes.items())
    return f"{'  ' * depth}<{name} {words}{'/>' if close else '>'}"


def _count_channels(program: CollectiveProgram) -> int:
    return 1 + max((block.channel for rank in program.ranks for block in rank.blocks), default=0)


def _abbreviate_numbers(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
