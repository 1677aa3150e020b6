"""The functions of the package ``hespas`` that study one question, as ``hespas study`` does."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hespas.support.errors import UsageError
from hespas.support.suggestions import suggest_nearest
from hespas.workflows.run_flow import TextFunction, ignore_text

if TYPE_CHECKING:
    from hespas.workflows.pipelines.pipeline_study import PipelineStudy
    from hespas.workflows.variation.checkpoint_goodput import JobGoodput
    from hespas.workflows.variation.device_groups import DeviceNumbers, MixedStep
    from hespas.workflows.variation.step_variation import StepVariation


def variation(
    folder: str | os.PathLike[str],
    *,
    device_spread: float | str = 0.0,
    jitter: float = 0.0,
    draws: int = 1000,
    seed: int = 0,
    system: str | None = None,
) -> StepVariation:
    """Draw the step time of devices and kernels that are not all alike.

    Args:
        folder: The output folder of a run, or other traces.
        device_spread: Standard deviation of the time of compute between devices, 0.03 for 3 %, or
            "bands" for that of the band of the run's compute.
        jitter: That of each compute node from one execution to the next.
        draws: The number of draws.
        seed: The seed of the random numbers; equal seeds give equal results.
        system: The network; None for that of the run.

    Returns:
        The distribution of the step time, and what one slow device costs.

    Raises:
        HespasError: The traces cannot be simulated, or the run has no band.
    """
    from hespas.workflows.variation.step_variation import vary_folder

    return vary_folder(
        os.fspath(folder),
        device_spread=device_spread,
        jitter=jitter,
        draws=draws,
        seed=seed,
        overrides={"system": system} if system else {},
    )


def goodput(devices: int | Sequence[int], checkpoint_s: float, **options: Any) -> JobGoodput:
    """Compute what failures and checkpoints leave of the time of a training job.

    Args:
        devices: The number of devices, or several.
        checkpoint_s: The time for which a checkpoint stops the job.
        **options: ``restart_s``, ``device_mtbf_h``, ``interval_s`` and ``step_time_s``, as the
            flags of ``hespas study goodput``.

    Returns:
        The share of time that makes progress, with the best interval between checkpoints.

    Raises:
        HespasError: A number is not positive.
    """
    from hespas.workflows.variation.checkpoint_goodput import compute_job_goodput

    counts = [devices] if isinstance(devices, int) else devices
    return compute_job_goodput(counts, checkpoint_s, **options)


def groups(
    devices: str | os.PathLike[str] | Mapping[str, DeviceNumbers], *, system: str | None = None
) -> MixedStep:
    """Simulate one job on devices of several kinds, as ``hespas study groups`` does.

    Args:
        devices: For each folder of a run of the whole job on devices of one kind, the numbers of
            the devices that are of this kind, also as text such as ``"0-3,8"``; or a file of YAML
            or JSON with the keys ``groups`` and ``system``.
        system: The network; None for that of the file, or of the first run.

    Returns:
        The step time, and what the devices of each kind compute and wait for.

    Raises:
        HespasError: The groups do not divide the devices, or traces do not fit together.
    """
    from hespas.workflows.variation import device_groups

    if isinstance(devices, Mapping):
        return device_groups.simulate_group_folders(
            device_groups.make_device_groups(devices), system
        )
    read_groups, file_system = device_groups.read_group_file(devices)
    return device_groups.simulate_group_folders(read_groups, system or file_system)


def pipeline(
    folder: str | os.PathLike[str] = "", *, note: TextFunction = ignore_text, **options: Any
) -> PipelineStudy:
    """Compare schedules of pipeline parallelism, as ``hespas study pipeline`` does.

    Args:
        folder: The folder of the programs of stages; "" for those of the recipe ``stage``.
        note: Receives notes and progress, one line each.
        **options: Options of each estimate, such as ``estimator="roofline"``, see
            docs/reference/run-config.md, and fields of ``PipelineRequest``, such as ``ranks=4``,
            ``microbatches=[8, 16]``, ``options={"model": "8b"}``, ``mesh={"data": 2}`` and
            ``node="H100_80GB"``.

    Returns:
        A row for each schedule and number of microbatches, and the fastest one that fits.

    Raises:
        HespasError: An option is wrong, or no pipeline at all can be estimated.
    """
    from hespas.workflows.pipelines.pipeline_request import PipelineRequest
    from hespas.workflows.pipelines.pipeline_study import compare_pipelines
    from hespas.workflows.run_config import list_run_options, take_run_options

    run, own = take_run_options("hespas study pipeline", options)
    known = [*PipelineRequest.__dataclass_fields__, *list_run_options("hespas study pipeline")]
    for name in own:
        if name not in known:
            raise UsageError(
                f"a study of pipelines has no option '{name}'", remedy=suggest_nearest(name, known)
            )
    request = PipelineRequest(folder=os.fspath(folder), run=run, **own)
    return compare_pipelines(request, note)
