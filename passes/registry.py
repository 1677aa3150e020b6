"""Every pass by name. A pass module is imported when its pass is first used.

A package adds passes by the entry point ``hespas.passes``: name = "module:Class". Each estimator,
built in or of a package, has a generated pass ``NAME-annotate``.
"""

from __future__ import annotations

import functools
from dataclasses import MISSING, Field

from hespas.estimators import registry as estimators
from hespas.passes.base import Pass
from hespas.support.entry_points import collect_entry_points, load_subclass
from hespas.support.errors import UsageError
from hespas.support.suggestions import suggest_nearest

# The passes of each folder. The pass split-linear is SplitLinearPass in split_linear.py.
FOLDERS = {
    "annotate": (
        "annotate", "refresh-costs", "strip-costs",
    ),
    "emit": (
        "emit-chakra", "op-stats",
    ),
    "fuse": (
        "assign-orders", "combine-collectives", "copy-carried-values", "copy-kept-values",
        "expand-ragged-products", "expand-scans", "expand-scatters", "expand-selections",
        "expand-vector-products",
        "fold-reductions", "fold-transposes", "form-kernels", "fuse", "fuse-copies",
        "fuse-epilogues", "fuse-products", "hoist-transposes", "inline-all-calls",
        "join-reductions", "merge-products", "narrow-gathers", "order-convolutions",
        "overlap-collectives", "overlap-transfers", "pad-convolutions", "remove-empty-values",
        "scatter-reductions", "simplify", "simplify-conversions", "sink-constants",
        "sink-reductions", "sink-transposes", "split-products", "split-reductions", "split-scans",
        "transpose-collectives", "transpose-operands", "widen-floats",
    ),
    "memory": (
        "memory-annotate", "on-chip-annotate",
    ),
    "optimize": (
        "xla-optimize",
    ),
    "prepare": (
        "annotate-collectives", "check-input", "choose-branches", "inline-calls",
        "isolate-fusions", "legalise", "partition", "prepare", "remove-markers",
        "remove-misplaced-facts", "remove-uncalled-functions", "replace-cross-replica-sums",
        "replace-host-placements", "replace-host-transfers", "select-platform",
        "set-dimension-sizes", "write-trip-counts",
    ),
    "split": (
        "split-individual", "split-linear", "unsplit",
    ),
}  # fmt: skip


def _locate_pass(folder: str, name: str) -> str:
    """Return the import path of a pass of hespas, which follows from its name."""
    class_name = "".join(word.capitalize() for word in name.split("-"))
    return f"hespas.passes.{folder}.{name.replace('-', '_')}:{class_name}Pass"


PASSES = {name: _locate_pass(folder, name) for folder, names in FOLDERS.items() for name in names}
_ESTIMATOR_SUFFIX = "-annotate"


def list_builtin_pass_names() -> list[str]:
    """List the names of the passes of hespas itself, in alphabetical order."""
    return sorted([*PASSES, *(name + _ESTIMATOR_SUFFIX for name in estimators.ESTIMATORS)])


def list_pass_names() -> list[str]:
    """List the names of all passes, in alphabetical order."""
    generated = [name + _ESTIMATOR_SUFFIX for name in estimators.list_estimator_names()]
    return sorted({*PASSES, *find_plugins(), *generated})


def is_pass_name(name: str) -> bool:
    """Return whether a pass has this name, without importing any pass."""
    return is_builtin_pass_name(name) or name in find_plugins() or bool(_find_estimator(name))


def load_pass_class(name: str) -> type[Pass]:
    """Import or generate the class of a pass. Raises UsageError that suggests a similar name."""
    import_path = PASSES.get(name)
    if import_path is None and not is_builtin_pass_name(name):
        import_path = find_plugins().get(name)
    if import_path is not None:
        cls = load_subclass(import_path, Pass, "pass")
        _check_declaration(cls, name, import_path)
        return cls
    estimator = _find_estimator(name)
    if not estimator:
        raise UsageError(
            f"no pass is named '{name}'", remedy=suggest_nearest(name, list_pass_names())
        )
    from hespas.passes.annotate.annotate import load_annotate_pass

    return load_annotate_pass(estimator)


def _check_declaration(cls: type[Pass], name: str, import_path: str) -> None:
    """Raise UsageError if the class of a pass lacks its name or its decorator."""
    declared = getattr(cls, "name", None)
    if not isinstance(declared, str):
        raise UsageError(f"the pass {import_path} has no name", remedy=f'define name = "{name}"')
    if declared != name:
        raise UsageError(
            f"the pass {import_path} is named '{declared}', but its entry point '{name}'",
            remedy="give both the same name",
        )
    bare = [option for option, value in vars(cls).items() if isinstance(value, Field)]
    if bare:
        raise UsageError(
            f"the pass {import_path} has the option '{bare[0]}', but is no dataclass",
            remedy="decorate it with @dataclass(frozen=True)",
        )
    for spelled, declared_option in cls.list_spelled_options():
        if declared_option.default is MISSING:
            raise UsageError(
                f"the pass {import_path} has no default for its option '{spelled}'",
                remedy='declare it with option(DEFAULT, "HELP") of hespas.plugin',
            )


def is_builtin_pass_name(name: str) -> bool:
    """Return whether a pass of hespas itself has this name."""
    return name in PASSES or (
        name.endswith(_ESTIMATOR_SUFFIX)
        and name.removesuffix(_ESTIMATOR_SUFFIX) in estimators.ESTIMATORS
    )


def _find_estimator(pass_name: str) -> str:
    """Return the estimator of a generated pass, or ""."""
    estimator = pass_name.removesuffix(_ESTIMATOR_SUFFIX)
    if estimator == pass_name:
        return ""
    if estimator in estimators.ESTIMATORS or estimator in estimators.collect_import_paths():
        return estimator
    return ""


@functools.cache
def find_plugins() -> dict[str, str]:
    """Map the name of each pass of a package to ``module:Class``. Raises UsageError for a clash.

    A pass with the name of a native one would run in its place, but not nested in a pipeline.
    """
    plugins = collect_entry_points(
        "hespas.passes", "pass", dict.fromkeys(list_builtin_pass_names(), "hespas")
    )
    if plugins:
        from hespas.passes.native_passes import NAMES  # loads the bindings

        for name in sorted(plugins.keys() & set(NAMES)):
            raise UsageError(
                f"a package defines the pass '{name}' ({plugins[name]}), which MLIR has",
                remedy="uninstall the package, or give its pass another name",
            )
    return plugins
