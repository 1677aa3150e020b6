"""``hespas_chakra_gen CONFIG``: the whole flow, driven and reported as by the published tool."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hespas.dialects.errors import UsageError
from hespas.tools import common
from hespas.tools.commands import log
from hespas.tools.commands.parser import Parser
from hespas.tools.commands.render import scaled

if TYPE_CHECKING:
    from hespas.tools.commands.summary import Summary

DESCRIPTION = """\
Estimate a program and write its Chakra traces. CONFIG gives mlir_file, output_dir, how to split and
the constants of the device; flags override it. Paths are relative to where you are.
hespas run does the same with presets, a system and a fuller summary.
"""


def arguments() -> Parser:
    parser = Parser("hespas_chakra_gen", DESCRIPTION)
    add = parser.add_argument
    add("config", help="configuration file (JSON)")
    add("--clean", action="store_true", default=None, help="remove the outputs of earlier runs")
    add("--mlir_file", help="the program, in any form that hespas reads")
    add("--num_npus", type=int, help="number of devices, checked against the program")
    add("--split_fn", dest="split_strategy", help="linear_split (default) or individual_split")
    add("--block_lim", type=int, help="most ops in a block of linear_split (default 1024)")
    add("--merge", action="store_true", default=None, help="merge blocks of individual_split")
    add("--no-merge", dest="no_merge", action="store_true", help="do not merge blocks")
    add("--output", dest="output_dir", help="output folder")
    add("--threads", dest="num_threads", type=int, help="accepted; splitting takes one thread")
    log.add_options(parser)
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the tool; returns its exit code, raises HespasError."""
    options = arguments().parse_args(argv)
    if options.merge and options.no_merge:
        raise UsageError("--merge and --no-merge exclude each other")

    from hespas.tools import published

    keys = ("clean", "mlir_file", "split_strategy", "block_lim", "output_dir", "num_threads")
    overrides = {key: getattr(options, key) for key in keys}
    overrides["merge"] = False if options.no_merge else options.merge
    found = published.read(options.config, overrides)
    if options.num_npus is not None:
        found = found.with_devices(options.num_npus)
    published.required(found.config, "output_dir", "or give --output", found.path)
    plan = published.plan(found)

    from hespas.passes.emit.folder import OURS
    from hespas.tools.commands import flow

    start = time.perf_counter()
    with log.opened(options) as note:
        for text in found.notes:
            note(f"note: {text}")
        with flow.progress(quiet=options.log_level in log.QUIET) as before:
            progress = before if sys.stderr.isatty() else None
            outcome = flow.execute(plan, note, before=before, progress=progress)
        summary = flow.summarise(plan, outcome)
        if found.config.clean:
            published.clean(summary.emitted.folder, keep=OURS)
        note(f"note: took {time.perf_counter() - start:.3f} s")
    print("\n".join(results(summary)))
    print(f"Done. Output directory: {summary.emitted.folder}")
    return 0


def results(found: Summary) -> list[str]:
    """The result lines under the published names."""
    totals, reuse = found.stats["totals"], found.stats["reuse"]
    hits = reuse["regions"] - reuse["distinct_regions"]
    seconds = found.time_ns * 1e-9 or 1.0
    lines = [
        f"Cache hits: {hits}",
        f"Basic block reuse rate: {_part(hits, reuse['regions'])}",
        f"Operator reuse factor: {_part(reuse['ops'] - reuse['distinct_ops'], reuse['ops'])}",
        *_utilisation("FLOPS/s", found.utilisation("flops")),
        *_utilisation("Memory bandwidth", found.utilisation("bandwidth")),
        f"Average FLOPS/s: {scaled(totals['flops'] / seconds, 'FLOPS/s')}",
        f"Average Memory Bandwidth: {scaled(found.moved_bytes / seconds, 'B/s')}",
    ]
    if totals["energy_nj"] is not None:
        lines.append(f"Total Energy: {scaled(totals['energy_nj'] * 1e-9, 'J')}")
    lines.append(f"Compute Runtime Estimation: {found.time_ns / 1e3:.3f} us")
    shares = found.shares("op")
    if shares:
        lines.append("Op time proportions:")
        width = max(len(name) for name, _ in shares) + 4
        lines += [f"    {f'{name}:':<{width}}{ns / found.time_ns:.3f}" for name, ns in shares]
    return lines


def _utilisation(what: str, share: float | None) -> list[str]:
    """No line where no node says what the peak is."""
    return [] if share is None else [f"{what} utilisation: {share:.3f}"]


def _part(part: int, whole: int) -> str:
    return f"{part / whole if whole else 0.0:.3f} ({part}/{whole})"


def script() -> None:
    common.script(main)


if __name__ == "__main__":
    script()
