"""The base class of estimators, and builders of costs."""

from __future__ import annotations

import functools
import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

from hespas.dialects.attrs import CompilerEstimateAttr, Cost, RegionAttr
from hespas.dialects.mlir import ir
from hespas.estimators.op_content import digest_kernel, render_op_text
from hespas.estimators.work import NotALeaf, OpWork, UnknownCost, WorkPart, compute_op_work
from hespas.support.entry_points import CORRECTION, is_own_code, report_raised_errors
from hespas.support.errors import HespasError
from hespas.support.records import record
from hespas.support.settings import list_settings, setting

__all__ = ["CostItem", "Estimator", "setting"]

Traits = TypeVar("Traits")


class CostItem:
    """An op, a fusion, or the function of a region, to be estimated.

    Attributes:
        has_stale_estimate: Whether an estimator has asked for the compiler's estimate of a kernel
            that another pass has changed.
        has_compiler_time: Whether an estimator has taken the compiler's time.
    """

    has_stale_estimate: bool = False
    has_compiler_time: bool = False

    def __init__(self, op: ir.Operation, text: str | None = None) -> None:
        self.op = op
        self._text = text
        self._traits: dict[tuple[Hashable, ...], Any] = {}

    @functools.cached_property
    def work(self) -> OpWork:
        """The operations and bytes of the op; raises UnknownCost."""
        return compute_op_work(self.op)

    @functools.cached_property
    def compiler_estimate(self) -> CompilerEstimateAttr | None:
        """What the compiler expects of the op as it is; None if it has timed another one."""
        estimate = CompilerEstimateAttr.read_from_op(self.op)
        if estimate is None or estimate.digest in (None, digest_kernel(self.op)):
            return estimate
        self.has_stale_estimate = True
        return None

    def take_compiler_time_ns(self) -> float | None:
        """Return the time of the op in the compiler's estimate; None if it is not known."""
        estimate = self.compiler_estimate
        time_ns = None if estimate is None else estimate.latency_ns
        self.has_compiler_time |= time_ns is not None
        return time_ns

    def list_known_parts(self) -> Sequence[WorkPart]:
        """List the operations of the op; none if they are not known."""
        try:
            return self.work.parts
        except HespasError:
            return ()

    def find_traits(self, find: Callable[..., Traits], *settings: Hashable) -> Traits:
        """Return ``find(self, *settings)``, which reads the op; equal settings read it once.

        An item may be estimated for many nodes (``workflows.program_replay``), so ``find`` must
        depend on nothing else.
        """
        key = (find, *settings)
        if key not in self._traits:
            self._traits[key] = find(self, *settings)
        return self._traits[key]

    @property
    def digest(self) -> str:
        """A hash of the content: of a region, the digest in ``hespas.region``.

        Else of its text without names and locations: equal texts have equal costs.
        """
        region = RegionAttr.read_from_op(self.op)
        if region is not None:
            return region.digest
        if self._text is None:
            self._text = render_op_text(self.op)
        return hashlib.sha256(self._text.encode()).hexdigest()[:16]


@record(frozen=True)
class ChipFigures:
    """What is known of the chip of a device, beside the energy of its ops.

    ``TargetAttr`` has fields of the same names.

    Attributes:
        area_mm2: Its area.
        leakage_w: Its power while nothing switches.
        link_pj_per_byte: The energy of a byte that it sends.
    """

    area_mm2: float | None = None
    leakage_w: float | None = None
    link_pj_per_byte: float | None = None


@record(frozen=True)
class DeviceRate:
    """A number of a device that estimates depend on, and that the analysis of a step changes.

    Attributes:
        name: Its name, such as ``clock``.
        kind: Its kind: ``products``, ``vector``, ``sram``, ``clock`` or ``power``.
        value: Its value; None if it stands for several.
        unit: The unit of the value.
        scale: Returns the estimator of a device on which it is larger by a factor.
        least: The factor below which a device does not run at all.
    """

    name: str
    kind: str
    value: float | None
    unit: str
    scale: Callable[[float], Estimator]
    least: float | None = None


class Estimator(ABC):
    """Base of all estimators, which turn items into costs.

    A package adds an estimator by the entry point group ``hespas.estimators``. The first sentence
    of the docstring is the help of its pass ``--NAME-annotate``.

    Attributes:
        name: The name by which users select the estimator.
        version: Changes when results change; it is part of the key of cached results.
        granularity: ``op`` and ``kernel`` estimators receive single ops and fusions. ``region``
            estimators receive the functions of regions, and the ops between regions.
        measures: Whether the estimator runs code, so that results depend on the machine.
        keeps_values: Whether costs depend on what stays in the on-chip memory between kernels
            (``hespas.on_chip``), so that a run annotates it first.
        measured_network: Whether costs predict real times. Collectives are then simulated with
            measured times if there are any, and they slow down compute that runs alongside.
        Config: The dataclass or pydantic model that the constructor accepts. Its fields are the
            settings of the estimator and the options of its pass, declared with
            ``setting(default, help)`` in a dataclass and with ``Field(description=...)`` in a
            model. A field ``node`` receives the selected ``NodeSpec``, and an integer
            ``job_devices`` that is 0 the number of devices of the program. A Config that replaces
            values of the node has a property ``node_overrides``
            (``hespas.configs.node_overrides``).
    """

    name: ClassVar[str]
    version: ClassVar[str]
    granularity: ClassVar[Literal["op", "kernel", "region"]] = "op"
    measures: ClassVar[bool] = False
    keeps_values: ClassVar[bool] = False
    measured_network: ClassVar[bool] = False
    Config: ClassVar[type[Any]]

    @abstractmethod
    def __init__(self, config: Any) -> None: ...

    @abstractmethod
    def estimate(self, item: CostItem) -> Cost:
        """Return the cost of one execution of ``item``; raises UnknownCost."""

    def estimate_time_ns(self, item: CostItem) -> float:
        """Return the latency of ``estimate(item)``, without its notes; raises UnknownCost.

        Many nodes are tried for one item; an estimator may leave the rest of the cost out.
        """
        return self.estimate(item).time_ns

    def describe_provenance(self) -> str:
        """Describe in one line where the constants of the estimates so far come from.

        By default the settings, if the constructor keeps its argument as ``self.config``.
        """
        config = getattr(self, "config", None)
        parts = []
        for declared in list_settings(self.Config) if config is not None else ():
            value = getattr(config, declared.name)
            if declared.name == "node":
                parts.append(value.describe_provenance())
            elif value not in (None, ""):
                text = f"{value:g}" if isinstance(value, float) else value
                parts.append(f"{declared.spelled}={text}")
        return ", ".join(parts)

    def describe_chip(self) -> ChipFigures:
        """Return the area and power of a device, as far as its files give them."""
        return ChipFigures()

    def list_device_rates(self) -> Sequence[DeviceRate]:
        """List numbers of the device besides the rates of its node.

        A rate of kind ``products`` or ``vector`` stands for those of the node.
        """
        return ()

    def list_notes(self) -> Sequence[str]:
        """List remarks on the estimates so far, to be printed after a module is annotated."""
        return ()

    def list_warnings(self) -> Sequence[str]:
        """List warnings about the estimates so far; reports repeat them."""
        return ()


def estimate_item(estimator: Estimator, item: CostItem) -> Cost:
    """Return ``estimator.estimate(item)``; that of an estimator of a package is verified.

    Raises:
        UnknownCost: The estimator has no cost for the item.
        HespasError: The time is not finite, because a rate of the node is near 0. Or the estimator
            of a package has raised another exception, or has returned no cost, or one that violates
            the schema.
    """
    if is_own_code(type(estimator)):
        cost = estimator.estimate(item)
        if not math.isfinite(cost.time_ns):
            raise HespasError(
                f"the {estimator.name} estimate of the op is {cost.time_ns} ns",
                op=item.op,
                remedy="correct the rates of the node",
            )
        return cost
    subject = f"estimator '{estimator.name}'"
    with report_raised_errors(subject, type(estimator), op=item.op, passes_on=(NotALeaf,)):
        cost = estimator.estimate(item)
    violation = (
        cost.find_type_violation() or cost.find_schema_violation()
        if isinstance(cost, Cost)
        else f"{type(cost).__name__} is no hespas.plugin.Cost"
    )
    if violation:
        message = f"{subject} returned an invalid cost: {violation}"
        raise HespasError(message, op=item.op, remedy=CORRECTION)
    return cost


@dataclass(frozen=True, kw_only=True, slots=True)
class CompilerEstimateConfig:
    """The setting of estimators that can take over what a compiler expects of its kernels."""

    compiler_estimates: bool = setting(
        False, "kernels take the time that XLA:TPU estimated when it compiled them, if it did"
    )


@contextmanager
def raise_as_unknown_cost(op: ir.Operation) -> Iterator[None]:
    """Convert each HespasError to UnknownCost, so that ``--keep-going`` counts it as a gap."""
    try:
        yield
    except UnknownCost:
        raise
    except HespasError as error:
        raise UnknownCost(error.message, op=op, remedy=error.remedy) from None


def build_work_cost(
    estimator: str,
    work: OpWork,
    time_s: float,
    bound: str,
    *,
    trips: int | None = None,
    energy_nj: float | None = None,
) -> Cost:
    """Return the cost of an op or region that does ``work`` in ``time_s`` seconds."""
    flops = work.flops
    return Cost(
        estimator,
        flops,
        work.read_bytes,
        work.write_bytes,
        1e9 * time_s,
        bound,
        work.dtype if flops else "none",
        trips=work.trips if trips is None else trips,
        energy_nj=energy_nj,
        gap=work.gap,
        integer_product_flops=work.integer_product_flops or None,
    )


def determine_bound(work: OpWork, compute_s: float, memory_s: float) -> str:
    """Return the bound of an op whose compute and memory times overlap."""
    if not compute_s and not memory_s:
        return "unknown" if work.gap else "none"
    return "compute" if compute_s > memory_s else "memory"


FREE_COST = Cost("", 0, 0, 0, 0.0)  # of an op that has no cost on the IR because it is free


def build_zero_cost(estimator: str) -> Cost:
    """Return the cost of an item that takes no time."""
    return Cost(estimator, 0, 0, 0, 0.0, "none", "none")
