"""The sensitivity of a finished run, from the module and the settings in its folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hespas.workflows.network_settings import load_resolved_system, read_recorded_settings
from hespas.workflows.run_results import read_annotated_module

if TYPE_CHECKING:
    from hespas.workflows.sensitivity.step_sensitivity import StepSensitivity


def analyse_run_folder(folder: str) -> StepSensitivity:
    """Evaluate the step of a run at other rates; raises HespasError."""
    from hespas.workflows.sensitivity.step_replay import ReplayedNetwork
    from hespas.workflows.sensitivity.step_sensitivity import analyse_step

    module, settings = read_annotated_module(folder), read_recorded_settings(folder)
    network = None
    if settings is not None and settings.system is not None:
        system = load_resolved_system(settings, folder)
        network = ReplayedNetwork(system, settings.build_simulator_choice())
    return analyse_step(module, network, is_current=True)
