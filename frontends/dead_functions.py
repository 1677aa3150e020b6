"""Leaving out private functions that nothing refers to before MLIR parses them.

XLA prints a copy of each fusion and reducer body as such a function: half of the text, whose parse,
verification and removal take a third of the time of the main job.

The text is divided at the lines that end the ops of a module, as MLIR prints it. The braces outside
strings must balance in each part, which shows that the division is right; a text in which they do
not, or with comments, is left as it is. A name that follows an ``@`` anywhere, also in a string,
counts as a reference, so that no function is left out that ``prepare`` would not remove.
"""

from __future__ import annotations

import string

from hespas.dialects.mlir import find_attribute, ir

PRIVATE = b"  func.func private @"
END = b"\n  }\n"  # of an op of the module
SYMBOL_BYTES = (string.ascii_letters + string.digits + "_$.").encode()
OTHER_BYTES = bytes(byte for byte in range(256) if byte not in b'{}/"')


def leave_out_dead_functions(text: bytes) -> bytes | None:
    """Return the text of a module without the private functions that nothing refers to.

    Empty lines take the place of a function, so that all other lines keep their numbers.

    Returns:
        The text; None if there is no such function, or if the text is not as MLIR prints it.
    """
    if not (text.startswith(b"module ") and PRIVATE in text and END in text and text.isascii()):
        return None
    first, *parts, tail = text.split(END)
    if [_cancel_pairs(_list_braces(part)) for part in (first, tail)] != [b"{{", b"}"]:
        return None
    names: list[bytes] = []  # of the private function that is the part; empty for another part
    candidates: dict[bytes, list[bytes]] = {}  # what each private function refers to
    live = [b"main", *_list_references(first), *_list_references(tail)]
    for part in parts:
        braces = _list_braces(part)
        if _cancel_pairs(braces) != b"{":
            return None
        # The partner of the first brace of a single op is the last one, which ``split`` removed.
        name = b"" if _cancel_pairs(braces[1:]) else _find_private_name(part)
        names.append(name)
        if name:
            is_leaf = part.find(b"@", len(PRIVATE)) < 0
            candidates[name] = [] if is_leaf else _list_references(part)
        else:
            live += _list_references(part)
    dead = candidates
    while live:
        name = live.pop()
        if not name:  # it is quoted, or no name
            return None
        live += dead.pop(name, ())
    if not dead:
        return None
    kept = [
        b"\n" * (part.count(b"\n") + END.count(b"\n")) if name in dead else part + END
        for part, name in zip(parts, names, strict=True)
    ]
    return b"".join([first, END, *kept, tail])


def parse_text(text: bytes, name: str, context: ir.Context) -> ir.Module | None:
    """Parse a module whose locations name a file.

    Args:
        text: The text of the module.
        name: The name of the file.
        context: The context.

    Returns:
        The module; None if MLIR reports an error, or for an attribute of the module that the
        bindings cannot represent.
    """
    try:
        parsed = ir.Operation.parse(text.decode(), source_name=name, context=context).operation
    except ir.MLIRError:
        return None
    # The bindings parse no text into a module with a name of a file.
    module = ir.Module.create(parsed.location)
    for attribute in parsed.attributes:
        value = find_attribute(parsed, attribute)
        if value is None:
            return None
        module.operation.attributes[attribute] = value
    for op in list(parsed.regions[0].blocks[0].operations):
        module.body.append(op)
    return module


def _list_braces(text: bytes) -> bytes:
    """Return the braces of a text outside strings, and slashes, of which comments consist."""
    if b"\\" in text:
        text = text.replace(rb"\\", b"").replace(rb"\"", b"")
    marks = text.translate(None, OTHER_BYTES)
    return b"".join(marks.split(b'"')[::2]) if b'"' in marks else marks


def _cancel_pairs(braces: bytes) -> bytes:
    """Return the braces that have no partner."""
    while b"{}" in braces:
        braces = braces.replace(b"{}", b"")
    return braces


def _find_private_name(part: bytes) -> bytes:
    """Return the name of the private function that starts a part; empty if there is none.

    Its first line must be a signature without attributes, with which no other op starts.
    """
    signature = part[: part.find(b"\n")]
    if not (signature.startswith(PRIVATE) and signature.endswith(b" {")):
        return b""
    name, _, rest = signature[len(PRIVATE) : -2].partition(b"(")
    arguments, _, results = rest.partition(b")")
    types = results.removeprefix(b" -> ")
    is_plain = len(types) < len(results) or not results
    if types.startswith(b"(") and types.endswith(b")"):
        types = types[1:-1].replace(b", ", b"")
    is_plain &= not (b" " in types or b"(" in types or b")" in types)
    is_alone = is_plain and b"(" not in arguments and b'"' not in signature
    return name if is_alone and not name.strip(SYMBOL_BYTES) else b""


def _list_references(text: bytes) -> list[bytes]:
    """List the names that follow an ``@`` in a text."""
    return [name[: len(name) - len(name.lstrip(SYMBOL_BYTES))] for name in text.split(b"@")[1:]]
