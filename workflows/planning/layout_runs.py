"""The runs that estimate the layouts of a plan, and the options with which their bounds hold."""

from __future__ import annotations

from dataclasses import dataclass

from hespas.workflows.run_config import RunConfig, RunOptions, list_changed_options
from hespas.workflows.studies import program_forms

FUSED = "fused"
SPLIT = "linear"  # of a GPU, which runs kernels and synchronous collectives in program order
BOUNDED_ESTIMATORS = ("calibrated", "roofline")  # whose times bounds are known not to exceed
# The options with which they are, too. Others, such as new ones, may make an estimate shorter.
BOUNDED_OPTIONS = (
    "estimator", "keep_going", "overlap", "xla_optimize", "congestion", "curves", "between_hosts",
    "slowdown", "network_model", "price_per_hour",
)  # fmt: skip


@dataclass(frozen=True)
class LayoutRuns:
    """The runs of layouts.

    Attributes:
        node: The type of device.
        system: The system of all devices; None for a single device.
        options: The options of each estimate.
    """

    node: str
    system: str | None
    options: RunOptions

    def select_options(self, form: str) -> RunOptions:
        """Return the options of the estimates of layouts in a form."""
        if form != FUSED:
            return self.options
        return self.options.model_copy(update={"split": SPLIT})

    def make_config(self, form: str) -> RunConfig:
        """Make the run that estimates a layout in a form, without its program."""
        options = self.select_options(form)
        return program_forms.make_run_config(options, form, node=self.node, system=self.system)

    def list_unbounded_options(self) -> list[str]:
        """List the options with which a bound might be above its estimate."""
        names = [n for n in list_changed_options(self.options) if n not in BOUNDED_OPTIONS]
        is_bounded = self.options.estimator in BOUNDED_ESTIMATORS
        return names if is_bounded else ["estimator", *names]
