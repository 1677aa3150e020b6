"""``hespas study operators``: matrix products by every estimator of an accelerator.

This is the operator study of the published Hespas (arXiv 2604.12090), by default on one core of a
TPU v3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hespas.support.errors import HespasError, UsageError
from hespas.workflows.plot_files import make_logarithmic
from hespas.workflows.studies.study_output import StudyOutput

if TYPE_CHECKING:
    from hespas.configs.node_spec import NodeSpec
    from hespas.dialects.mlir import ir
    from hespas.estimators.base import CostItem, Estimator
    from hespas.estimators.measure.measurement_run import MeasureOptions
    from hespas.support.text_tables import TextTable

NODE = "TPUv3_core"
SIZES = (
    "128,256,512,1024,2048,4096,1x1024x1024,64x1280x1280,197x768x768,784x1152x128,4096x320x320,"
    "2048x512x32000"
)
ESTIMATORS = (
    "roofline", "systolic", "systolic{variant=scalesim}", "systolic{variant=cocossim}", "scalesim",
    "zigzag", "onnxim{time-limit=100}", "cocossim{time-limit=100}",
)  # fmt: skip
DTYPES = ("bf16", "f16", "f32", "i8")

DESCRIPTION = f"""\
Estimate matrix products by several estimators, and print the times side by side. Simulators that
are not installed, and products that a simulator refuses, are reported and left out, unless
--estimator names them.

  hespas study operators --csv gemm.csv --plot gemm.svg

M x K by K x N is MxKxN, or M for a square one. By default: {SIZES.replace(",", " ")}.
"""

Shape = tuple[int, int, int]


def compare_estimators(
    node: NodeSpec,
    shapes: Sequence[Shape],
    dtype: str,
    estimators: Sequence[str],
    options: MeasureOptions,
    *,
    strict: bool,
) -> dict[str, Any]:
    """Estimate matrix products by several estimators.

    Args:
        node: The node.
        shapes: M, K and N of each product.
        dtype: One of ``DTYPES``.
        estimators: Estimators with settings, as ``name{key=value ...}``.
        options: How simulators are run.
        strict: Whether an estimator that cannot be used raises; else it is skipped. A product that
            an estimator refuses is a row with a reason in any case.

    Returns:
        The ``node``, its ``peak_flops`` for the type in FLOP/s, ``rows`` with one for each
        estimator and product, the provenance of the ``constants`` of each estimator, and by
        estimator why it was ``skipped``.

    Raises:
        HespasError: The node has no rate for the type, or, with ``strict``, an estimator fails.
    """
    peak_flops = _get_peak_rate(node, dtype)
    modules = [_make_product_module(shape, dtype) for shape in shapes]
    rows: list[dict[str, Any]] = []
    constants, skipped = {}, {}
    for spelled in estimators:
        try:
            built_estimator = _build_estimator(spelled, node)
            estimator_rows = list(
                _estimate_products(built_estimator, spelled, modules, shapes, dtype, options)
            )
            constants[spelled] = built_estimator.describe_provenance()
            rows += estimator_rows
        except HespasError as error:
            if strict:
                raise
            skipped[spelled] = error.message
    return {
        "node": node.name,
        "peak_flops": peak_flops,
        "rows": rows,
        "constants": constants,
        "skipped": skipped,
    }


def _build_estimator(spelled: str, node: NodeSpec) -> Estimator:
    """Build the estimator of ``name{key=value ...}``; raises UsageError."""
    from hespas.estimators import registry
    from hespas.passes.pipeline import parse_options

    form = re.fullmatch(r"([\w-]+)(?:\{(.*)\})?", spelled.strip())
    if not form:
        raise UsageError(f"'{spelled}' is not NAME{{KEY=VALUE ...}}")
    return registry.build_estimator(form[1], node, parse_options(form[2] or ""))


def _estimate_products(
    estimator: Estimator,
    spelled: str,
    modules: Sequence[ir.Module],
    shapes: Sequence[Shape],
    dtype: str,
    options: MeasureOptions,
) -> Iterator[dict[str, Any]]:
    """Yield the rows of one estimator; raises HespasError if it cannot be used at all."""
    from hespas.estimators.base import estimate_item
    from hespas.estimators.measure.base import MeasuringEstimator
    from hespas.estimators.measure.measurement_run import measure_items
    from hespas.estimators.work import UnknownCost

    items = [_make_product_item(module) for module in modules]
    if isinstance(estimator, MeasuringEstimator):
        measure_items(estimator, items, options, keep_going=True)
    for item, (m, k, n) in zip(items, shapes, strict=True):
        flops = item.work.flops
        row = {"estimator": spelled, "m": m, "k": k, "n": n, "dtype": dtype, "flops": flops}
        try:
            cost = estimate_item(estimator, item)
        except UnknownCost as error:
            unknown = dict.fromkeys(("time_s", "flops_per_s", "bound"))
            yield {**row, **unknown, "reason": error.message}
        else:
            time_s = cost.time_ns * 1e-9
            known = {"time_s": time_s, "flops_per_s": flops / time_s, "bound": cost.bound}
            yield {**row, **known, "reason": None}


def _make_product_module(shape: Shape, dtype: str) -> ir.Module:
    """Build a program that is one product."""
    from hespas.dialects.mlir import ir, make_context

    m, k, n = shape
    out = "i32" if dtype == "i8" else dtype
    types = [f"tensor<{m}x{k}x{dtype}>", f"tensor<{k}x{n}x{dtype}>", f"tensor<{m}x{n}x{out}>"]
    text = f"""func.func @main(%x: {types[0]}, %w: {types[1]}) -> {types[2]} {{
      %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
        : ({types[0]}, {types[1]}) -> {types[2]}
      return %0 : {types[2]}
    }}"""
    return ir.Module.parse(text, make_context())


def _make_product_item(module: ir.Module) -> CostItem:
    from hespas.dialects.mlir import collect_functions
    from hespas.estimators.base import CostItem

    return CostItem(collect_functions(module)["main"].regions[0].blocks[0].operations[0].operation)


def _get_peak_rate(node: NodeSpec, dtype: str) -> float:
    """Return the rate of the node for products of a type, as the roofline uses it."""
    return node.find_peak_rate("matrix", "tf32" if dtype == "f32" else dtype).flops_per_s


def parse_product_shape(text: str) -> Shape:
    """Parse ``MxKxN``, or ``M`` for M x M x M; raises UsageError."""
    sizes = text.split("x")
    if len(sizes) not in (1, 3) or not all(size.isdecimal() and int(size) for size in sizes):
        raise UsageError(f"'{text}' is not a product: MxKxN, or M for a square one")
    m, k, n = sizes if len(sizes) == 3 else sizes * 3
    return int(m), int(k), int(n)


def build_operator_output(result: Mapping[str, Any]) -> StudyOutput:
    """Build the tables, the data and the plot of the study."""
    rows = [{"node": result["node"], **row} for row in result["rows"]]
    return StudyOutput(
        rows=rows,
        data={"study": "operators", **result, "rows": rows},
        tables=_make_tables(result),
        notes=_collect_notes(result),
        draw=lambda figure: _draw_achieved_rates(figure, result),
        size=(9, 5),
    )


def _make_tables(result: Mapping[str, Any]) -> list[TextTable]:
    """Tabulate the times: a row for each product, a column for each estimator."""
    from hespas.support.text_tables import TextTable, format_seconds

    shown = list(result["constants"])
    cells: dict[Shape, dict[str, dict[str, Any]]] = {}
    for row in result["rows"]:
        cells.setdefault((row["m"], row["k"], row["n"]), {})[row["estimator"]] = row
    lines = []
    for shape, by in cells.items():
        times = [by[name]["time_s"] for name in shown]
        lines.append(
            ("x".join(map(str, shape)), *("-" if t is None else format_seconds(t) for t in times))
        )
    title = f"{result['node']}: time of M x K by K x N"
    return [TextTable(title, lines, ("product", *map(_shorten_spelling, shown)))]


def _shorten_spelling(spelled: str) -> str:
    """Shorten ``systolic{variant=scalesim}`` to ``systolic scalesim``, without limits."""
    name, _, settings = spelled.strip("}").partition("{")
    values = [word.rpartition("=")[2] for word in settings.split() if "limit" not in word]
    return " ".join([name, *values])


def _name_product(row: Mapping[str, Any]) -> str:
    return "x".join(str(row[name]) for name in "mkn")


def _collect_notes(result: Mapping[str, Any]) -> list[str]:
    """Describe why the table has gaps, each reason once."""
    reasons: dict[str, list[str]] = {}
    for row in result["rows"]:
        if row["reason"]:
            reason = f"{row['estimator']}: {row['reason']}"
            reasons.setdefault(reason, []).append(_name_product(row))
    gaps = [f"{', '.join(shapes)}: {reason}" for reason, shapes in reasons.items()]
    return [*gaps, *(f"no {name}: {reason}" for name, reason in result["skipped"].items())]


def _draw_achieved_rates(figure: Any, result: Mapping[str, Any]) -> None:
    """Draw the achieved rate of each product, a line for each estimator, below the peak."""
    sizes = {(r["flops"], r["m"], r["k"], r["n"]): _name_product(r) for r in result["rows"]}
    products = [sizes[key] for key in sorted(sizes)]
    axes = figure.add_subplot()
    for number, name in enumerate(result["constants"]):
        rates = {
            _name_product(row): row["flops_per_s"] or float("nan")
            for row in result["rows"]
            if row["estimator"] == name
        }
        values = [rates[product] for product in products]
        marker = "osD^v<>P"[number % 8]
        axes.plot(
            range(len(products)), values, marker=marker, ms=5, lw=0.8, label=_shorten_spelling(name)
        )
    axes.axhline(result["peak_flops"], color="grey", ls="--", lw=1, label="peak")
    axes.set(
        ylabel="operations per second", xlabel="product, M x K x N",
        title=f"Matrix products on {result['node']}",
    )  # fmt: skip
    make_logarithmic(axes.yaxis, *axes.dataLim.intervaly)
    axes.set_xticks(range(len(products)), products, rotation=30, ha="right")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
