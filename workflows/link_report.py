"""The traffic of the links of a simulated step: a table, a CSV file and a plot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hespas.configs.system_spec import SystemSpec
from hespas.simulators.simulation_result import LinkTraffic, LinkUse
from hespas.support.output_file import check_writable_file, write_atomically
from hespas.support.text_tables import TextTable, format_percent, format_scaled
from hespas.workflows.plot_files import COLOURS, check_plot_file, save_figure
from hespas.workflows.studies.study_output import format_csv

_FULL = 1.001  # of a link; times are rounded to nanoseconds


def check_link_file(path: str) -> None:
    """Raise HespasError if the file cannot be written, before the work for it is done."""
    if Path(path).suffix.lower() != ".csv":
        check_plot_file(path)
    check_writable_file(path)


def report_link_use(system: SystemSpec, use: LinkUse, path: str) -> TextTable:
    """Write the traffic of each link to a file, and return a table with a row for each dimension.

    Args:
        system: The system.
        use: The use of its links.
        path: A .csv file, or a plot.

    Raises:
        HespasError: The file cannot be written.
    """
    if Path(path).suffix.lower() == ".csv":
        rows = [
            {
                "dimension": link.dim,
                "source": link.source,
                "target": link.target,
                "bytes": link.carried_bytes,
                "utilisation": link.utilisation,
            }
            for link in use.links
        ]
        write_atomically(path, format_csv(rows).encode())
    else:
        _write_link_plot(system, use, path)
    return build_link_table(system, use)


def find_overloaded_link(use: LinkUse) -> LinkTraffic | None:
    """Return the busiest link if more bytes cross it in a step than it could carry."""
    busiest = max(use.links, key=lambda link: link.utilisation, default=None)
    return busiest if busiest is not None and busiest.utilisation > _FULL else None


def build_link_table(system: SystemSpec, use: LinkUse) -> TextTable:
    """Build the table of the dimensions, each with its busiest link."""
    rows = []
    for dim, kind in enumerate(system.topology):
        total = use.counts[dim]
        of_dim = [link for link in use.links if link.dim == dim]
        carried = sum(link.carried_bytes for link in of_dim)
        cells = [f"{kind} {system.npus_count[dim]}", f"{len(of_dim)} of {total}"]
        cells.append(format_scaled(carried, "B"))
        if of_dim:
            busiest = max(of_dim, key=lambda link: link.utilisation)
            mean = sum(link.utilisation for link in of_dim) / total
            cells += [
                format_percent(mean),
                format_percent(busiest.utilisation),
                format_scaled(busiest.carried_bytes, "B"),
                f"{busiest.source} -> {busiest.target}",
            ]
        else:
            cells += ["0.0 %", "0.0 %", "0 B", "-"]
        rows.append(tuple(cells))
    header = ("dimension", "links in use", "bytes", "utilisation", "busiest", "its bytes", "link")
    return TextTable("Links, each direction on its own", rows, header)


def _write_link_plot(system: SystemSpec, use: LinkUse, path: str) -> None:
    """Draw the utilisation of each link, sorted, in one colour for each dimension."""
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.add_subplot()
    for dim, kind in enumerate(system.topology):
        total = use.counts[dim]
        shares = sorted((link.utilisation for link in use.links if link.dim == dim), reverse=True)
        shares += [0.0] * (total - len(shares))
        positions = [(number + 0.5) / total for number in range(total)]
        label = f"dimension {dim}: {kind} {system.npus_count[dim]}"
        colour = COLOURS[dim % len(COLOURS)]
        axes.plot(positions, shares, drawstyle="steps-mid", color=colour, label=label)
    axes.set_xlabel("share of the links of a dimension, the busiest first")
    axes.set_ylabel("utilisation in a step")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8)
    save_figure(figure, path)
