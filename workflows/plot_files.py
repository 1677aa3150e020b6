"""Writing plots with matplotlib, atomically and reproducibly."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from hespas.support.errors import HespasError
from hespas.support.output_file import write_atomically

COLOURS = ("#2f69e1", "#a85c08", "#058169", "#612685", "#8d1832", "#8a919c")
MARKS = ("o", "s", "^", "D", "P", "o")
KINDS = (".png", ".svg", ".pdf")
DATES = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def check_plot_file(path: str) -> None:
    """Raise HespasError if a plot cannot be made, before the work for it is done."""
    if Path(path).suffix.lower() not in KINDS:
        raise HespasError(f"a plot is a file {', '.join(KINDS)}", where=path)
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        message = "plots need matplotlib"
        raise HespasError(message, remedy="pip install 'hespas[plot]'") from None


def make_logarithmic(axis: Any, low: float, high: float) -> None:
    """Make an axis of ``low`` to ``high`` logarithmic, with labels that do not overprint.

    Over few decades matplotlib labels each multiple of a power of ten, as ``4 x 10^1``.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    if high < 1000 * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def save_figure(figure: Any, path: str) -> None:
    """Write a figure in the format of the file's suffix; raises HespasError.

    Dates and random ids are left out, so that equal figures give equal files.
    """
    import matplotlib

    kind, data = Path(path).suffix.lower(), io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "hespas", "svg.fonttype": "none"}):
        figure.savefig(data, format=kind[1:], dpi=150, metadata=DATES.get(kind))
    write_atomically(path, data.getvalue())
