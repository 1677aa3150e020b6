"""Every pass by name. A pass module is imported when its pass is first asked for.

A package adds passes by the entry point ``hespas.passes``: name = "module:Class".
"""

from __future__ import annotations

import importlib

from hespas.passes.base import Pass
from hespas.support.errors import UsageError
from hespas.support.suggestions import suggest_nearest

PASSES = {
    "accelsim-annotate": "hespas.passes.annotate.accelsim_annotate:AccelsimAnnotatePass",
    "annotate": "hespas.passes.annotate.annotate:AnnotatePass",
    "calibrated-annotate": "hespas.passes.annotate.calibrated_annotate:CalibratedAnnotatePass",
    "cocossim-annotate": "hespas.passes.annotate.cocossim_annotate:CocossimAnnotatePass",
    "emit-chakra": "hespas.passes.emit.emit_chakra:EmitChakraPass",
    "fuse": "hespas.passes.fuse.fuse:FusePass",
    "iree-annotate": "hespas.passes.annotate.iree_annotate:IreeAnnotatePass",
    "memory-annotate": "hespas.passes.memory.memory_annotate:MemoryAnnotatePass",
    "onnxim-annotate": "hespas.passes.annotate.onnxim_annotate:OnnximAnnotatePass",
    "op-stats": "hespas.passes.emit.op_stats:OpStatsPass",
    "prepare": "hespas.passes.prepare.prepare:PreparePass",
    "roofline-annotate": "hespas.passes.annotate.roofline_annotate:RooflineAnnotatePass",
    "scalesim-annotate": "hespas.passes.annotate.scalesim_annotate:ScalesimAnnotatePass",
    "split-individual": "hespas.passes.split.split_individual:SplitIndividualPass",
    "split-linear": "hespas.passes.split.split_linear:SplitLinearPass",
    "systolic-annotate": "hespas.passes.annotate.systolic_annotate:SystolicAnnotatePass",
    "xla-annotate": "hespas.passes.annotate.xla_annotate:XlaAnnotatePass",
    "xla-optimize": "hespas.passes.optimize.xla_optimize:XlaOptimizePass",
    "zigzag-annotate": "hespas.passes.annotate.zigzag_annotate:ZigzagAnnotatePass",
}


def list_pass_names() -> list[str]:
    """The names of all passes, alphabetical."""
    return sorted({**PASSES, **_find_plugins()})


def is_pass_name(name: str) -> bool:
    return name in PASSES or name in _find_plugins()


def load_pass_class(name: str) -> type[Pass]:
    """The pass class; raises UsageError that suggests the near name."""
    place = PASSES.get(name) or _find_plugins().get(name)
    if place is None:
        raise UsageError(
            f"no pass is named '{name}'", remedy=suggest_nearest(name, list_pass_names())
        )
    module, _, cls = place.partition(":")
    return getattr(importlib.import_module(module), cls)


_plugin_places: dict[str, str] | None = None


def _find_plugins() -> dict[str, str]:
    global _plugin_places
    if _plugin_places is None:
        from importlib.metadata import entry_points

        _plugin_places = {}
        for point in entry_points(group="hespas.passes"):
            # A package that is installed twice on the path is listed twice.
            known = PASSES.get(point.name) or _plugin_places.get(point.name, point.value)
            if known != point.value:
                _plugin_places = None
                raise UsageError(f"two packages define the pass '{point.name}'")
            _plugin_places[point.name] = point.value
    return _plugin_places
