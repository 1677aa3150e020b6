"""The published tools of Hespas: their command lines, configuration files and printed lines.

``hespas run`` accepts a published configuration file through ``build_published_run`` and knows
nothing else of this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hespas.workflows.run_config import RunConfig
    from hespas.workflows.run_plan import RunPlan

PUBLISHED_KEYS = ("mlir_file", "output_dir", "split_strategy", "perf_estimator", "block_lim")


def build_published_run(
    values: dict[str, Any], path: str, run_flags: RunConfig
) -> tuple[RunPlan, list[str]] | None:
    """Build the plan of a run from a published configuration file.

    Args:
        values: The content of the configuration file.
        path: The name of the file, for messages.
        run_flags: The flags of ``hespas run``; they override the keys of the file.

    Returns:
        The plan and one note for each key that has no effect; None if the file is not in the
        published form.

    Raises:
        HespasError: A value of the file or a flag is invalid.
    """
    if not any(key in values for key in PUBLISHED_KEYS):
        return None
    from hespas.tools.published import published_config

    return published_config.build_run_from_values(values, path, run_flags)
