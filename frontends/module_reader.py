"""Reading of modules from files and bytes; the content determines the format."""

from __future__ import annotations

import codecs
import io
import mmap
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from hespas.dialects.mlir import (
    deserialize_portable_artifact,
    hlo_text_to_proto,
    ir,
    load_linalg,
)
from hespas.dialects.mlir_diagnostics import capture_diagnostics, to_hespas_error
from hespas.dialects.op_kinds import NUM_PARTITIONS, NUM_REPLICAS
from hespas.dialects.program_facts import record_exported_platforms
from hespas.dialects.protobuf import extract_hlo_module
from hespas.frontends import dead_functions, input_attributes, text_check
from hespas.frontends.foreign_files import (
    BYTECODE_MAGIC,
    FORMATS,
    describe_binary,
    describe_text,
    read_exported_artefact,
)
from hespas.frontends.quantised_types import REMEDY as QUANTISED_REMEDY
from hespas.frontends.quantised_types import has_quantised_types, replace_quantised_types
from hespas.support.data_files import read_file_bytes
from hespas.support.errors import HespasError, format_source_position
from hespas.support.packed_data import unpack_bytes
from hespas.support.supervised_process import run_native_reader

# What the bindings raise for the exceptions of C++, std::out_of_range among them.
NATIVE_ERRORS = (RuntimeError, ValueError, IndexError, OverflowError)
HEAD_BYTES = 4096
GLOBALS = b"ml_program.global"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def read_module(
    path: str | os.PathLike[str], context: ir.Context, *, only_live: bool = False
) -> ir.Module:
    """Read a module from a file, or from standard input if ``path`` is ``-``.

    The content determines the format, never the file name; ``.xz`` and ``.gz`` files are
    decompressed. Of a folder of XLA's dumps, the program after optimisation is read. Ops of
    unregistered dialects are accepted if ``context`` allows them. ``hespas`` attributes of the
    module are verified, and typed ones are converted to dictionaries.

    Args:
        path: The file.
        context: The context of the module.
        only_live: Leave out private functions that nothing refers to, where the text shows them
            (``dead_functions``). MLIR does not see them, and reports none of their errors.

    Raises:
        HespasError: If the file cannot be read or parsed.
    """
    name = os.fspath(path)
    if os.path.isdir(name):
        name = find_dumped_program(name)
    if _is_mlir_text(name):
        # MLIR opens the file itself: nothing is copied, and locations carry the file name.
        with open(name, "rb") as file:
            attribute_prefix = input_attributes.detect_attribute_prefix(file)
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
                if has_quantised_types(text) or text.find(GLOBALS) >= 0:
                    return parse_module(bytes(text), name, context)
                text_check.check_text(text, name)
                live = None
                if only_live and not attribute_prefix:
                    live = dead_functions.leave_out_dead_functions(bytes(text))

        def parse_file() -> ir.Module:
            with run_native_reader(name, os.path.getsize(name)):
                module = None if live is None else dead_functions.parse_text(live, name, context)
                return module or ir.Module.parseFile(name, context)

        return input_attributes.load_verified_module(
            lambda: _report_parse_errors(parse_file, name, context), attribute_prefix, name, context
        )
    name, data = read_unpacked_bytes(name)
    return parse_module(data, name, context)


def _is_mlir_text(name: str) -> bool:
    """Return whether a regular file starts as only MLIR text can."""
    words = (b"module", b"func.func", b"#", b"//", b'"builtin.module"', b"sdy.mesh")
    try:
        name.encode()  # MLIR accepts only UTF-8 file names
        if not os.path.isfile(name):
            return False
        with open(name, "rb") as file:
            head = file.read(HEAD_BYTES)
    except (OSError, UnicodeEncodeError):
        return False  # `read_unpacked_bytes` reports the reason
    return head.isascii() and b"\0" not in head and head.lstrip().startswith(words)


def to_display_name(path: str | os.PathLike[str]) -> str:
    """Return a file name as valid text, for errors, locations and reports."""
    try:
        return os.fsencode(path).decode(errors="replace")
    except UnicodeEncodeError:
        return ascii(path)


def read_unpacked_bytes(path: str | os.PathLike[str]) -> tuple[str, bytes]:
    """Read and decompress a file, or standard input if ``path`` is ``-``.

    Returns:
        The name to use in messages, and the content.

    Raises:
        HespasError: If the file cannot be read or is damaged.
    """
    name = os.fspath(path)
    if name == "-":
        if sys.stdin is None:
            raise HespasError("standard input is closed", remedy="name a file")
        return "<stdin>", _decompress_bytes(sys.stdin.buffer.read(), "<stdin>")
    display_name = to_display_name(name)
    return display_name, _decompress_bytes(read_file_bytes(name, display_name), display_name)


def parse_module(data: bytes, name: str, context: ir.Context) -> ir.Module:
    """Parse a module from bytes; ``name`` replaces the file name in errors and locations."""
    data = _decompress_bytes(data, name).removeprefix(codecs.BOM_UTF8)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        data = _decode_utf16(data)  # as PowerShell redirects text into a file
    attribute_prefix = input_attributes.detect_attribute_prefix(io.BytesIO(data))
    module = input_attributes.load_verified_module(
        lambda: _parse_by_format(data, name, context), attribute_prefix, name, context
    )
    position = format_source_position(module.operation.location)
    if position.partition(":")[0] == "-":
        # MLIR names no file in locations of text from memory. Later processes read the name here.
        line, _, column = position.removeprefix("-").removeprefix(":").partition(":")
        module.operation.location = ir.Location.file(
            name, int(line or 0), int(column or 0), context
        )
    return module


def _parse_by_format(data: bytes, name: str, context: ir.Context) -> ir.Module:
    if data.startswith(BYTECODE_MAGIC):
        return _parse_bytecode(data, name, context)
    head = data[:HEAD_BYTES].lstrip()
    if not data.strip():
        raise HespasError("the file is empty", where=name, remedy=f"hespas reads {FORMATS}")
    if head.startswith(b"HloModule"):
        return _parse_hlo_text(data, name, context)
    if b"\0" in data:
        exported = read_exported_artefact(data)
        if exported is not None:
            module = _parse_bytecode(exported.bytecode, name, context)
            record_exported_platforms(module, exported.platforms)
            return module
        proto = extract_hlo_module(data)
        if proto is None:
            raise describe_binary(data, name)
        return _from_hlo_proto(proto, name, context)
    return _parse_mlir_text(data, name, context)


def _decode_utf16(data: bytes) -> bytes:
    """Return text in UTF-16 as UTF-8, or the data if it is none."""
    try:
        return data.decode("utf-16").encode()
    except UnicodeError:
        return data


def _decompress_bytes(data: bytes, name: str) -> bytes:
    if data.startswith(ZSTD_MAGIC):
        raise HespasError("zstd files are not supported", where=name, remedy=f"run: zstd -d {name}")
    return unpack_bytes(data, name)


def _describe_python_file(name: str) -> HespasError:
    target = f"{os.path.basename(name).removesuffix('.py')}.mlir"
    return HespasError(
        "this is a Python file, not a module",
        where=name,
        remedy=f"export the program that it defines: hespas export {name} -o {target}",
    )


def _parse_mlir_text(data: bytes, name: str, context: ir.Context) -> ir.Module:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise HespasError(
            f"byte 0x{data[error.start]:02x} is not UTF-8 text",
            where=f"{name}:{line}:{column}",
            remedy=f"hespas reads {FORMATS}",
        ) from None
    text_check.check_text(data, name)
    is_quantised = has_quantised_types(data)
    text = replace_quantised_types(data) if is_quantised else data
    if text.find(GLOBALS) >= 0:
        from hespas.frontends.unused_globals import leave_out_unused_globals

        keeps_generic_form = context.allow_unregistered_dialects
        text = leave_out_unused_globals(text, keeps_generic_form=keeps_generic_form)

    def parse_text() -> ir.Module:
        with run_native_reader(name, len(text)):
            return ir.Module.parse(text, context)

    try:
        return _report_parse_errors(parse_text, name, context, text)
    except HespasError as error:
        if is_quantised:
            error.remedy = error.remedy or QUANTISED_REMEDY
        raise


def _parse_bytecode(data: bytes, name: str, context: ir.Context) -> ir.Module:
    text_check.check_bytecode(data)

    def load_bytecode() -> ir.Module:
        with run_native_reader(name, len(data)):
            module = ir.Module.parse(data, context)
            if any(op.operation.name.startswith("vhlo.") for op in module.body.operations):
                return deserialize_portable_artifact(context, data)
            return module

    return _report_parse_errors(load_bytecode, name, context)


def _report_parse_errors(
    load: Callable[[], ir.Module], name: str, context: ir.Context, text: bytes | None = None
) -> ir.Module:
    """Load a module; raises HespasError for what MLIR says. ``text`` is that of a file if None."""
    with capture_diagnostics(context) as messages:
        try:
            return load()
        except ir.MLIRError as error:
            if "linalg" in str(error) and load_linalg(context):
                return _report_parse_errors(load, name, context, text)
            if name.endswith(".py"):
                raise _describe_python_file(name) from None
            known = text or _read_plain_text(name)
            problem = to_hespas_error(error, name, context, known)
            problem = describe_text(problem, name, known or b"")
            raise _mention_truncation(problem, name) from None
        except NATIVE_ERRORS as error:
            message = messages[0] if messages else str(error).strip().split("\n", 1)[0]
            raise HespasError(message, where=name, remedy=f"hespas reads {FORMATS}") from None


def _read_plain_text(name: str) -> bytes | None:
    return Path(name).read_bytes() if os.path.isfile(name) else None


def _mention_truncation(error: HespasError, name: str) -> HespasError:
    """Add a remedy to a syntax error at the end of a file, where truncated files have theirs."""
    place = re.fullmatch(r":(\d+):(\d+)", error.where.removeprefix(name))
    if place and not error.remedy and os.path.isfile(name):
        text = Path(name).read_bytes()
        lines = text.rstrip().split(b"\n")
        at_end = int(place[1]) > len(lines) or int(place[2]) >= len(lines[-1])
        if int(place[1]) >= len(lines) and (at_end or not text.endswith(b"\n")):
            error.remedy = "the file ends here: is it complete?"
    return error


NO_VERSION = ", api_version=API_VERSION_UNSPECIFIED"
ALIASING = ", output_to_operand_aliasing={"
ALIASING_ATTRIBUTE = (
    r", output_to_operand_aliasing=\{(?:\{[\d, ]*\}: \(\d+, \{[\d, ]*\}(?:, [\w-]+)?\)(?:, )?)*\}"
)
HLO_HEADER = r"(?P<name>\s*HloModule\s+[^\s,]+).*"
IS_SCHEDULED = "is_scheduled=true"
ASYNC_START = r" [a-z-]+-start\("
HLO_PLACE = r"was parsing (\d+:\d+): error: (.*)"
STATUS = r"^[A-Z_]+: "
COUNTS = {
    NUM_PARTITIONS: rb"num_partitions=(\d+)",
    NUM_REPLICAS: rb"replica_count=(\d+)",
}
HLO_REMEDIES = (  # part of XLA's message, remedy
    (r"[Aa]sync", "make the HLO with --xla_disable_hlo_passes=async-collective-conversion"),
    ("LiteralProto", "it was written without its constants, such as trip counts: write its text"),
)


def _parse_hlo_text(data: bytes, name: str, context: ir.Context) -> ir.Module:
    try:
        text = data.decode()
        with run_native_reader(name, len(data)):
            proto = hlo_text_to_proto(_state_schedule(_remove_refused_attributes(text)))
    except UnicodeDecodeError:
        raise HespasError("the HLO text is not UTF-8", where=name) from None
    except NATIVE_ERRORS as error:
        place = re.search(HLO_PLACE, str(error))
        where = f"{name}:{place[1]}" if place else name
        message = place[2] if place else _extract_hlo_message(error)
        problem = HespasError(f"not valid HLO text: {message}", where=where)
        raise _mention_truncation(problem, name) from None
    module = _from_hlo_proto(proto, name, context)
    header = data.lstrip().split(b"\n", 1)[0]
    for attribute, pattern in COUNTS.items():  # the protobuf lacks these counts
        count = re.search(pattern, header)
        if count and attribute not in module.operation.attributes:
            kind = ir.IntegerType.get_signless(32, context)
            module.operation.attributes[attribute] = ir.IntegerAttr.get(kind, int(count[1]))
    return module


def _remove_refused_attributes(text: str) -> str:
    """Remove from HLO text what XLA prints and its own parser refuses.

    That is, in jaxlib 0.12, the version of custom calls that state none, as those of Neuron's
    PyTorch, and the aliasing of asynchronous collectives: XLA holds each one as an
    ``async-start``, whose aliasing it prints, and prints it as an op that has no such attribute.
    """
    text = text.replace(NO_VERSION, "")
    if ALIASING not in text:
        return text
    lines = text.split("\n")
    return "\n".join(
        re.sub(ALIASING_ATTRIBUTE, "", line)
        if ALIASING in line and re.search(ASYNC_START, line)
        else line
        for line in lines
    )


def _state_schedule(text: str) -> str:
    """Say in the header of HLO text that its order is a schedule, if only the order shows overlap.

    XLA's parser forgets the order of a text without ``is_scheduled=true``, so that the end of each
    asynchronous collective would follow its start at once.
    """
    header = re.match(HLO_HEADER, text)
    if header is None or IS_SCHEDULED in header[0] or not re.search(ASYNC_START, text):
        return text
    return f"{header['name']}, {IS_SCHEDULED}{text[header.end('name') :]}"


def _from_hlo_proto(proto: bytes, name: str, context: ir.Context) -> ir.Module:
    # It imports numpy and protobuf, which take 0.2 s, and few inputs need it.
    from hespas.passes.compile.hlo_to_stablehlo import import_hlo

    try:
        with capture_diagnostics(context), run_native_reader(name, len(proto)):
            return import_hlo(proto, context)
    except (*NATIVE_ERRORS, ir.MLIRError) as error:
        message = _extract_hlo_message(error)
        raise HespasError(
            f"XLA cannot express this HLO in StableHLO: {message}",
            where=name,
            remedy=next((remedy for part, remedy in HLO_REMEDIES if re.search(part, message)), ""),
        ) from None


def _extract_hlo_message(error: Exception) -> str:
    """Return the first message of XLA or MLIR, without its status code and source traces."""
    if isinstance(error, ir.MLIRError) and error.error_diagnostics:
        return error.error_diagnostics[0].message.strip()
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return re.sub(STATUS, "", lines[0]) if lines else type(error).__name__


# Folders of XLA's dumps (--xla_dump_to).
# What XLA writes of a program after its last pass, as a protobuf and as text.
_OPTIMISED = r"after_optimizations\.(?P<form>hlo\.pb|txt)(\.(gz|xz))?$"
_HLO = r"\.(?P<form>hlo\.pb|hlo)(\.(gz|xz))?$"
# What XLA was given, in a folder of each module; and what JAX writes (jax_dump_ir_to).
_GIVEN = r"\.(?P<form>mlir|mlirbc)(\.(gz|xz))?$"


def find_dumped_program(folder: str) -> str:
    """Return the path of the only program in a folder of dumps, optimised if XLA dumped that.

    Raises:
        HespasError: The folder has no program, or several.
    """
    names = sorted(os.listdir(folder))
    for pattern in (_OPTIMISED, _HLO, _GIVEN):
        programs: dict[str, str] = {}
        for name in names:
            match = re.search(pattern, name)
            if match and (name[: match.start()] not in programs or match["form"] == "hlo.pb"):
                programs[name[: match.start()]] = os.path.join(folder, name)
        if len(programs) > 1:
            raise _refuse_several(folder, list(programs.values()))
        if programs:
            return next(iter(programs.values()))
    if "saved_model.pb" in names:
        raise HespasError(
            "this is a SavedModel of TensorFlow, not a module",
            where=folder,
            remedy="write the text of tf.function(f, jit_compile=True)"
            '.experimental_get_compiler_ir(*arguments)(stage="stablehlo")',
        )
    raise HespasError(
        "the folder has no program that XLA or JAX dumped",
        where=folder,
        remedy="dump it with XLA_FLAGS='--xla_dump_to=FOLDER --xla_dump_hlo_as_proto'",
    )


def _refuse_several(folder: str, paths: Sequence[str]) -> HespasError:
    largest = max(paths, key=os.path.getsize)
    return HespasError(
        f"the folder has {len(paths)} programs",
        where=folder,
        remedy=f"name the file of one; the largest is {largest}",
    )
