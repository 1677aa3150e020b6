"""The node and the network of a training case.

Hosts of GPUs have 8 devices, those of a DGX-2 16. A row that names a fabric with a system preset
gets that preset. Otherwise, the bandwidth between hosts is the one that the row states, or else
that of the vendor's reference design, which is then an assumption about the row. TPU chips form
slices, whose shape and number are assumed unless the row states them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from hespas import configs
from hespas.configs import compile_targets, system_layout, torus_slices
from hespas.configs.source_errors import ErrorCause
from hespas.configs.system_layout import GIB, SystemDimension
from hespas.support.errors import HespasError
from hespas.support.output_file import write_atomically
from hespas.workflows.studies import program_forms
from hespas.workflows.validation.training_cases import (
    NO_DEVICES,
    TrainingCase,
    read_axis_sizes,
)

HOST_DEVICES = 8
_ADAPTERS = re.compile(r"\b(\d+)x (?:NVIDIA |BF3 )*ConnectX-\d(?: IB [A-Z]DR)? (\d+) ?Gb/s")
_RDMA = re.compile(r"\b(?:infiniband|ib|roce)", re.IGNORECASE)
_TRAY_DEVICES = 4  # of a rack of GB200 or GB300
NIC_LATENCY_NS = 2000.0  # as the SuperPOD presets: half of NCCL's 4 us for a network step


@dataclass(frozen=True, slots=True)
class Board:
    """A board by the name that benchmarks give it.

    Attributes:
        node: The node preset.
        host: The system preset of a host.
        cluster: The system presets of several hosts over ``nic_gb_s``; "" if there are none.
        nic_gb_s: The bandwidth of a device between hosts in the vendor's reference design, in 1e9
            bytes per second and direction.
        reference: The source of ``nic_gb_s``.
        host_devices: The devices of a host, or of a rack whose switches connect all its devices.
        is_rack: Whether it is a rack, of which a job may have any part.
    """

    node: str
    host: str
    cluster: str
    nic_gb_s: float
    reference: str
    host_devices: int = HOST_DEVICES
    is_rack: bool = False


_AMD_NIC = "AMD's platforms, one 400 Gb/s adapter for each GPU"
_XDR = "DGX B300 and GB300 NVL72, one ConnectX-8 for each GPU"
_NDR = "DGX SuperPOD, NDR InfiniBand"
_HDR = "DGX A100 SuperPOD, HDR InfiniBand"
_DGX_1 = "DGX-1, four EDR InfiniBand adapters"
_DGX_2 = "DGX-2, eight EDR InfiniBand adapters"
BOARDS: Mapping[str, Board] = {
    "H100_80GB_SXM": Board("H100_80GB", "HGX_H100_8", "DGX_H100_SuperPOD_{}", 50.0, _NDR),
    "H200_141GB_SXM": Board("H200_141GB", "HGX_H200_8", "DGX_H200_SuperPOD_{}", 50.0, _NDR),
    # NVIDIA's first data sheets of B200 and GB200 have 192 GB, of which boards enable 180 and 186.
    **dict.fromkeys(
        ("B200_180GB", "B200_192GB"),
        Board("B200_180GB", "HGX_B200_8", "DGX_B200_SuperPOD_{}", 50.0, _NDR),
    ),
    "B300_SXM": Board("B300_288GB", "HGX_B300_8", "DGX_B300_SuperPOD_{}", 100.0, _XDR),
    "H100_96GB_HBM2e_500W": Board(
        "H100_96GB_HBM2e", "HGX_H100_8", "Grand_Teton_H100_{}", 50.0, "Grand Teton, 400 Gb/s RoCE"
    ),
    "A100_SXM_80GB": Board(
        "A100_SXM_80GB", "A100_SXM_40GB_8GPU", "DGX_A100_SuperPOD_{}", 25.0, _HDR
    ),
    "A100_SXM_40GB": Board("A100_SXM_40GB", "A100_SXM_40GB_8GPU", "", 25.0, _HDR),
    "V100_16GB_SXM2": Board("V100_16GB", "V100_32GB_8GPU", "", 6.25, _DGX_1),
    "V100_32GB_SXM2": Board("V100_32GB", "V100_32GB_8GPU", "", 6.25, _DGX_1),
    "V100_32GB_SXM3": Board("V100_SXM3_32GB", "DGX_2_V100_16", "", 6.25, _DGX_2, 16),
    **dict.fromkeys(
        ("GB200_NVL72", "GB200_192GB"),
        Board(
            "GB200_186GB", "GB200_NVL72", "GB200_NVL72_SuperPOD_{}", 50.0, _NDR, 72, is_rack=True
        ),
    ),
    "GB300_NVL72": Board(
        "GB300_288GB", "GB300_NVL72", "GB300_NVL72_SuperPOD_{}", 100.0, _XDR, 72, is_rack=True
    ),
    **{
        gpu: Board(gpu, f"{gpu}_Platform_8", "", 50.0, _AMD_NIC)
        for gpu in ("MI300X", "MI325X", "MI350X", "MI355X")
    },
}
SOURCE_BOARDS: Mapping[tuple[str, str], Board] = {
    ("B200_180GB", "SimuMax"): replace(BOARDS["B200_180GB"], node="B200_180GB_720W"),
}
"""The board of a row by its node and a word of its source, where the source has published times of
products that another power limit explains (``benchmarks/calibration/power_limits.py``)."""
BOARDS_BY_NODE = {board.node: board for board in (*BOARDS.values(), *SOURCE_BOARDS.values())}
FABRICS = (
    ("H100_80GB", r"TCPXO|A3 Mega", "A3_Mega_{}"),
    ("H100_80GB", r"TCPX\b", "A3_High_{}"),
    ("H200_141GB", r"A3 Ultra", "A3_Ultra_{}"),
    ("B200_180GB", r"\bA4\b", "A4_{}"),
    ("H100_80GB", r"Grand Teton", "Grand_Teton_H100_{}"),
    ("H100_80GB", r"p5\.48xlarge", "EC2_P5_{}"),
)
"""Fabrics by node and by the words of a row's network, with their system presets by hosts."""


@dataclass(frozen=True, slots=True)
class CaseSystem:
    """The network of a case.

    Attributes:
        name: A preset; "" for a single device, or if ``dimensions`` describe the network.
        dimensions: The dimensions of a network without a preset.
        title: The name for people.
        assumption: What the row does not state about the network; "" if it states all.
        network_error: What the row leaves open of what connects hosts: everything (``unstated``),
            or the rate of InfiniBand or RoCE (``unrated``); None if it leaves nothing open. Chips
            and their hosts fix what connects slices of TPUs.
    """

    name: str
    title: str
    dimensions: tuple[SystemDimension, ...] = ()
    assumption: str = ""
    network_error: ErrorCause | None = None


def find_node(hardware: str, source: str = "") -> str:
    """Return the node preset of a board in the machine of a source, or "" if none is known."""
    node = _find_board_node(hardware)
    for (plain_node, word), variant in SOURCE_BOARDS.items():
        if node == plain_node and re.search(rf"\b{word}\b", source):
            return variant.node
    return node


def _find_board_node(hardware: str) -> str:
    """Return the node preset of a board, or "" if none is known.

    What follows the name in brackets describes it further, as in ``TPU7x (two devices a chip)``. Of
    a chip whose cores are devices to XLA, it is the node of a core. A name that is no board and no
    preset stands for the only one that has all its words, such as ``H100 SXM 80GB``.
    """
    board = hardware.partition(" (")[0]
    if board in BOARDS:
        return BOARDS[board].node
    presets = configs.list_node_presets()
    if exact := next((name for name in (f"{board}_core", board) if name in presets), ""):
        return exact
    stated = {name: name for name in presets if name not in _list_inferred_nodes()}
    nodes = {name: known.node for name, known in BOARDS.items()} | stated
    words = _split_board_name(board)
    fitting = {node for name, node in nodes.items() if words <= _split_board_name(name)}
    cores = {node for node in fitting if f"{node}_core" in presets}
    fitting -= cores
    return fitting.pop() if words and len(fitting) == 1 else ""


def _split_board_name(name: str) -> frozenset[str]:
    """Split a name into its words in lower case, such as ``tpu`` and ``v5e`` of ``TPUv5e``."""
    words = re.sub(r"^tpu ?(?=v?\d)", "tpu ", re.sub(r"[\W_]+", " ", name.lower())).split()
    return frozenset(words) - {"nvidia", "google", "amd"}


def _list_inferred_nodes() -> set[str]:
    """List the nodes whose power limit no source states."""
    return {board.node for board in SOURCE_BOARDS.values()}


def describe_inferred_limit(node: str) -> str:
    """Return the assumption about a power limit that its source does not state, or ""."""
    if node not in _list_inferred_nodes():
        return ""
    limit_w = configs.load_node(node).tdp_w
    return f"power limit of {limit_w:g} W, inferred from products that the source published"


def count_xla_devices(case: TrainingCase, node: str) -> int:
    """Count the devices of a case as XLA counts them.

    A table may count chips where a chip has several devices. Its mesh, or its batch and that of a
    device, tell.
    """
    per_chip = _count_chip_devices(node)
    if per_chip == 1:
        return case.devices
    count = per_chip * case.devices
    sizes = read_axis_sizes(case.get_text("parallelism"), count)
    rows, per_device = map(case.get_text, ("global_batch", "per_device_batch"))
    try:
        by_batch = float(rows) / float(per_device)
    except (ValueError, ZeroDivisionError):
        by_batch = 0.0
    by_mesh = math.prod(size for axis, size in sizes.items() if axis not in NO_DEVICES)
    return count if count in (by_batch, by_mesh) else case.devices


def _count_chip_devices(node: str) -> int:
    if node not in compile_targets.list_target_presets():
        return 1
    tpu = compile_targets.load_compile_target(node).tpu
    return tpu.devices_per_chip if tpu else 1


def read_nic_bandwidth(text: str, tray_devices: int = HOST_DEVICES) -> float | None:
    """Read the bandwidth of a device between hosts, in 1e9 bytes per second; None if not stated.

    Understands ``8x400 Gb/s`` (of a host of 8), ``1600 Gb/s per node`` and ``400 Gb/s a GPU``, and
    ``8x ConnectX-7 IB NDR 400Gb/s`` (of a host, or of a tray of a rack) as MLPerf lists them.
    """
    if match := re.search(r"(\d+)x(\d+) Gb/s", text):
        return int(match[1]) * int(match[2]) / 8 / HOST_DEVICES
    *_, compute = text.split("Compute: ")
    if match := _ADAPTERS.search(compute):
        return int(match[1]) * int(match[2]) / 8 / tray_devices
    if match := re.search(r"(\d+) Gb/s[^;:,]* (?:per|a) (node|host|VM|GPU|device)", text):
        per_host = match[2] in ("node", "host", "VM")
        return int(match[1]) / 8 / (HOST_DEVICES if per_host else 1)
    return None


def find_fabric_preset(node: str, hosts: int, network: str) -> str:
    """Return the system preset of the fabric that a row names, or "" if there is none."""
    for fabric_node, words, preset in FABRICS:
        name = preset.format(hosts)
        if fabric_node == node and re.search(words, network):
            return name if name in configs.list_system_presets() else ""
    return ""


def choose_case_system(node: str, devices: int, network: str) -> CaseSystem:
    """Choose the network of ``devices`` devices.

    Raises:
        HespasError: Nothing is known about the board's hosts, or the devices do not fill them.
    """
    if devices == 1:
        return CaseSystem("", "one device")
    if node in torus_slices.list_torus_nodes():
        return _choose_slices(node, devices, network)
    board = BOARDS_BY_NODE.get(node)
    if board is None:
        name = program_forms.choose_system(node, devices, ())
        return CaseSystem(name or "", name or "")
    if devices < board.host_devices:
        return _choose_part_of_host(board, devices)
    if devices == board.host_devices:
        return CaseSystem(board.host, board.host)
    tray_devices = _TRAY_DEVICES if board.is_rack else board.host_devices
    hosts, stated_gb_s = _count_hosts(board, devices), read_nic_bandwidth(network, tray_devices)
    if fabric := find_fabric_preset(node, hosts, network):
        return CaseSystem(fabric, fabric)
    nic_gb_s = board.nic_gb_s if stated_gb_s is None else stated_gb_s
    assumption = (
        f"network between hosts assumed: {nic_gb_s:g} GB/s for each device ({board.reference})"
        if stated_gb_s is None
        else ""
    )
    error = _find_network_error(board, network) if assumption else None
    preset, of_each = board.cluster.format(hosts), devices // hosts
    is_whole = of_each == board.host_devices
    if is_whole and nic_gb_s == board.nic_gb_s and preset in configs.list_system_presets():
        return CaseSystem(preset, preset, (), assumption, error)
    dimensions = (
        _build_host_dimension(board, of_each),
        SystemDimension("Switch", hosts, nic_gb_s, NIC_LATENCY_NS),
    )
    part = "" if is_whole else f"{of_each} devices of "
    title = f"{hosts} x {part}{board.host}, {nic_gb_s:g} GB/s"
    return CaseSystem("", title, dimensions, assumption, error)


def _find_network_error(board: Board, network: str) -> ErrorCause:
    """Return what a row leaves open that does not state the rate between hosts.

    Hosts with Hopper and Blackwell that have InfiniBand or RoCE have an adapter of 400 Gb/s or more
    for each GPU, in the clouds of the rows that state it as in the reference design. Clouds whose
    adapters are slower, or used by TCP, have another network.
    """
    is_recent = board.reference in (_NDR, _XDR)
    return "unrated" if is_recent and _RDMA.search(network) else "unstated"


def _choose_part_of_host(board: Board, devices: int) -> CaseSystem:
    """Choose a preset of fewer devices of a board, or a part of the network of a host."""
    try:
        name = program_forms.choose_system(board.node, devices, ()) or ""
    except HespasError:
        dimensions = (_build_host_dimension(board, devices),)
        return CaseSystem("", f"{devices} devices of {board.host}", dimensions)
    return CaseSystem(name, name)


def _count_hosts(board: Board, devices: int) -> int:
    """Count the hosts, or the fewest racks that have equal parts of the devices.

    Raises:
        HespasError: The devices do not fill hosts.
    """
    fewest = -(-devices // board.host_devices)
    if board.is_rack:
        return next(count for count in range(fewest, devices + 1) if devices % count == 0)
    if devices % board.host_devices:
        raise HespasError(f"{devices} devices do not fill hosts of {board.host_devices}")
    return fewest


def _build_host_dimension(board: Board, devices: int) -> SystemDimension:
    inside = configs.load_system(board.host)
    gb_s = inside.bandwidth_gib_s[0] * GIB / 1e9
    return SystemDimension(inside.topology[0], devices, gb_s, inside.latency_ns[0])


def _choose_slices(node: str, devices: int, network: str) -> CaseSystem:
    """Choose the slices of TPU chips, with the longest side of a slice first.

    A mesh axis of neighbouring devices thus lies along it, as ``jax.experimental.mesh_utils`` would
    place one of that length.

    Raises:
        HespasError: No slice has that number of chips.
    """
    slices = read_slice_count(network) or count_fewest_slices(node, devices)
    cores = torus_slices.get_cores_per_chip(node)
    if devices % (cores * slices):
        raise HespasError(f"{devices} devices do not fill {slices} slices")
    shape = torus_slices.choose_slice_shape(node, devices // cores // slices)
    text = "x".join(map(str, shape))
    size = shape if slices == 1 else (*shape, slices)
    dimensions = tuple(torus_slices.build_slice_dimensions(node, size))
    title = f"{node} {text}" if slices == 1 else f"{slices} x {node} {text} over DCN"
    assumptions = [f"shape of a slice assumed: {text} chips"]
    if slices > 1:
        assumptions.append(
            f"network between slices assumed: {dimensions[-1].bandwidth_gb_s:g} GB/s for each chip"
        )
    return CaseSystem("", title, dimensions, "; ".join(assumptions))


def read_slice_count(text: str) -> int:
    """Read how many slices a row states, as ``between 2 slices`` or ``2 x v5e-256``; 0 if none."""
    match = re.search(r"(\d+) slice(?:s\b|\(s\)|\b)|\b(\d+) ?x v\d\w*-\d+", text)
    return int(match[1] or match[2]) if match else 0


def count_fewest_slices(node: str, devices: int) -> int:
    """Count the fewest slices that have so many chips."""
    largest = torus_slices.get_largest_slice(node)
    return 1 if largest is None else -(-devices // largest)


def write_case_system(system: CaseSystem, node: str, folder: Path) -> str:
    """Return the name of a system for a run: its preset, or a folder that is written here."""
    if not system.dimensions:
        return system.name
    local_gb_s = configs.load_node(node).memory_bandwidth_bytes_per_s / 1e9
    counts = "x".join(str(dimension.devices) for dimension in system.dimensions)
    name = f"{node}_{counts}_{system.dimensions[-1].bandwidth_gb_s:g}GBs"
    spec = system_layout.build_system_spec(folder / name, system.dimensions, local_gb_s)
    provenance = {
        "description": system.title,
        "sources": {"bandwidth": system.assumption or "stated in the table of measurements"},
        "units": system_layout.UNITS,
    }
    texts = system_layout.render_system_files(spec, provenance)
    (folder / name).mkdir(parents=True, exist_ok=True)
    for file_name, text in texts.items():
        write_atomically(str(folder / name / file_name), text.encode())
    return str(folder / name)
