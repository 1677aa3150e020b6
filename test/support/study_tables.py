"""The rows of the tables in docs/how-to/studies.md, from the tables that the studies write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby

Row = Mapping[str, str]


def _ms(row: Row, name: str, digits: int = 0) -> str:
    return f"{1e3 * float(row[name]):.{digits}f}"


def _percent(row: Row, name: str, digits: int) -> str:
    return f"{100 * float(row[name]):.{digits}f} %"


def _join(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _render_gemm(rows: Sequence[Row]) -> Iterator[str]:
    for (size, kind), group in groupby(rows, lambda row: (row["size"], row["kind"])):
        yield _join(size, kind, *(_percent(row, "mfu", 1) for row in group))


def _render_llama(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        cost = row["usd_per_million_tokens"]
        yield _join(
            row["model"], row["node"], _ms(row, "step_time_s"), _ms(row, "exposed_comm_s"),
            f"{float(row['tokens_per_s']):,.0f}", _percent(row, "mfu", 1),
            f"{float(row['peak_bytes']) / 1e9:.1f}", f"{float(row['energy_j']) / 1e3:.2f}",
            f"{float(cost):.2f}" if cost else "-",
        )  # fmt: skip


def _render_resnet(rows: Sequence[Row]) -> Iterator[str]:
    for depth, group in groupby(rows, lambda row: row["depth"]):
        few, many = group
        cells = [depth]
        for row in (few, many):
            step = f"{_ms(row, 'step_time_s', 1)} / {_ms(row, 'exposed_comm_s', 1)}"
            cells += [step, f"{float(row['samples_per_s']):,.0f}", _percent(row, "mfu", 1)]
        memory = f"{float(few['peak_bytes']) / 1e9:.1f}"
        yield _join(*cells, _percent(many, "efficiency", 0), memory)


def _render_scale_out(rows: Sequence[Row]) -> Iterator[str]:
    yield from _render_by_devices(rows, ("step_time_s", "compute_s", "exposed_comm_s"), " / ")


def _render_scheduled(rows: Sequence[Row]) -> Iterator[str]:
    yield from _render_by_devices(rows, ("step_time_s", "exposed_comm_s"), ", ")


def _render_by_devices(rows: Sequence[Row], names: Sequence[str], separator: str) -> Iterator[str]:
    ordered = sorted(rows, key=lambda row: (int(row["devices"]), int(row["tensor"])))
    for devices, group in groupby(ordered, lambda row: int(row["devices"])):
        cells = [f"{devices:,}"]
        for row in group:
            cells.append(separator.join(_ms(row, name) for name in names))
            if separator == " / ":
                cells.append(f"{float(row['tokens_per_s']):,.0f}")
            cells += [_percent(row, "mfu", 1), _percent(row, "efficiency", 0)]
        yield _join(*cells)


# The command of each table, and what renders its rows.
TABLES: Mapping[str, tuple[Sequence[str], Callable[[Sequence[Row]], Iterator[str]]]] = {
    "gemm": (("gemm",), _render_gemm),
    "resnet": (("resnet",), _render_resnet),
    "llama": (("llama",), _render_llama),
    "scale-out": (("scale-out",), _render_scale_out),
    "scale-out, scheduled": (
        ("scale-out", "--form", "scheduled", "--devices", "8,64,512,4096"),
        _render_scheduled,
    ),
}
