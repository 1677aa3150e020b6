"""Damaged programs for the fuzz target: seeds, and mutations that keep most of their structure."""

from __future__ import annotations

import functools
import io
import random
import re
from collections.abc import Callable

from support.paths import ROOT

SEEDS = ROOT / "test" / "seeds"
NUMBERS = ("0", "1", "-1", "2", "3", "7", "64", "4294967295", "9223372036854775807", "1e30", "nan")
TYPES = (
    "f32",
    "bf16",
    "f64",
    "i1",
    "i32",
    "ui8",
    "i4",
    "f8E4M3FN",
    "complex<f32>",
    "index",
    "none",
)
SNIPPETS = (
    '"\\FF"', "\\FF", '@"a\\FF"', '@"\\C3\\A9"', ' loc("a\\FF")', ' loc("a\\E9.py":3:4)',
    "\xff", "\0", "<", ">", "{", "}", "(", ")", '"', "%0", "^bb0", "?x", "*x", "-", "dense<>",
    "tensor<0x4xf32>", "tensor<*xf32>", "{hespas.cost = {}}", "hespas.region",
    "!stablehlo.token", "// -----",
)  # fmt: skip
TOKEN = re.compile(r"[A-Za-z_][\w.$-]*|-?\d+(?:\.\d+)?|[%@#^!]\w+|\S")
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?")
NAME = re.compile(r"\b(?:stablehlo|chlo|func|sdy|mhlo)\.[a-z_]+|\b[a-z]+(?:-[a-z]+)+\b")
TYPE = re.compile(r"\b(?:f32|bf16|i32|i64|i1)\b")


@functools.cache
def collect_seeds() -> list[bytes]:
    """Return the seeds: text, and the bytecode and portable artifacts of the text."""
    from hespas.dialects.mlir import hlo_text_to_proto, ir, make_context, stablehlo

    seeds = []
    for path in sorted(SEEDS.iterdir()):
        text = path.read_text()
        seeds.append(text.encode())
        if path.suffix == ".hlo":
            seeds.append(hlo_text_to_proto(text))
            continue
        module = ir.Module.parse(text, make_context())
        buffer = io.BytesIO()
        module.operation.write_bytecode(buffer)
        seeds.append(buffer.getvalue())
        if "sdy." not in text and "chlo." not in text:
            version = stablehlo.get_current_version()
            seeds.append(stablehlo.serialize_portable_artifact(module, version))
    return seeds


def make_case(number: int) -> bytes:
    """Return the damaged program of this number; equal numbers give equal programs."""
    chance = random.Random(number)
    seeds = collect_seeds()
    # Most damaged bytecode is refused at once; damaged text reaches the passes more often.
    wants_text = chance.random() < 0.7
    data = chance.choice([seed for seed in seeds if seed.isascii() == wants_text])
    for _ in range(chance.choice((1, 1, 1, 1, 2, 3))):
        if data.isascii() or chance.random() < 0.1:
            text = data.decode("latin-1")
            data = chance.choice(TEXT_MUTATIONS)(text, chance).encode("latin-1", "replace")
        else:
            data = chance.choice(BINARY_MUTATIONS)(data, chance)
    return data


def _replace_match(pattern: re.Pattern[str], words: tuple[str, ...]) -> Callable[..., str]:
    def replace(text: str, chance: random.Random) -> str:
        matches = list(pattern.finditer(text))
        if not matches:
            return text
        match = chance.choice(matches)
        other = chance.choice(words) if words else chance.choice(matches)[0]
        return text[: match.start()] + other + text[match.end() :]

    return replace


def _change_lines(text: str, chance: random.Random) -> str:
    """Remove, repeat or move a line."""
    lines = text.splitlines(keepends=True)
    if not lines:
        return text
    line = lines[chance.randrange(len(lines))]
    action = chance.randrange(3)
    if action != 1:
        lines.remove(line)
    if action != 0:
        lines.insert(chance.randrange(len(lines) + 1), line)
    return "".join(lines)


def _insert_snippet(text: str, chance: random.Random) -> str:
    """Insert a snippet at the start of a token, or at the end of a line."""
    places = [match.start() for match in TOKEN.finditer(text)] + [
        match.start() for match in re.finditer(r"\n", text)
    ]
    place = chance.choice(places or [0])
    return text[:place] + chance.choice(SNIPPETS) + text[place:]


def _join_with_another(text: str, chance: random.Random) -> str:
    """Join the first lines of a program and the last lines of another."""
    other = chance.choice([seed for seed in collect_seeds() if seed.isascii()]).decode()
    lines, other_lines = text.splitlines(keepends=True), other.splitlines(keepends=True)
    return "".join(
        lines[: chance.randrange(len(lines) + 1)]
        + other_lines[chance.randrange(len(other_lines)) :]
    )


def _remove_text(text: str, chance: random.Random) -> str:
    start = chance.randrange(len(text) + 1)
    return text[:start] + text[start + chance.choice((1, 1, 3, 10, 100, len(text))) :]


TEXT_MUTATIONS: tuple[Callable[[str, random.Random], str], ...] = (
    _replace_match(NUMBER, NUMBERS),
    _replace_match(NUMBER, NUMBERS),
    _replace_match(NAME, ()),
    _replace_match(TYPE, TYPES),
    _replace_match(TOKEN, ()),
    _change_lines,
    _insert_snippet,
    _join_with_another,
    _remove_text,
)


def _change_byte(data: bytes, chance: random.Random) -> bytes:
    if not data:
        return data
    place = chance.randrange(len(data))
    byte = chance.choice(
        (0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256), data[place] ^ (1 << chance.randrange(8)))
    )
    return data[:place] + bytes([byte]) + data[place + 1 :]


def _remove_bytes(data: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(data) + 1)
    return data[:start] + data[start + chance.choice((1, 4, 32, len(data))) :]


def _repeat_bytes(data: bytes, chance: random.Random) -> bytes:
    start, end = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    place = chance.randrange(len(data) + 1)
    return data[:place] + data[start : min(end, start + 64)] + data[place:]


BINARY_MUTATIONS = (_change_byte, _change_byte, _change_byte, _remove_bytes, _repeat_bytes)
