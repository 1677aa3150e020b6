"""The models of ``module_stats.json``, from which its JSON Schema is generated.

docs/reference/module-stats.md describes the keys. Keys may be added without a new ``schema``, so
readers must accept unknown keys.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from hespas.dialects.attrs import COUNTS, MAXIMA, OTHER_AMOUNTS

Count = Annotated[int, Field(ge=0)]
Time = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class _OpenModel(BaseModel):
    model_config = ConfigDict(extra="allow")


_COUNT_FIELDS: dict[str, Any] = dict.fromkeys(COUNTS, (Count, ...))
_OTHER_FIELDS: dict[str, Any] = dict.fromkeys((*OTHER_AMOUNTS, *MAXIMA), (Time | None, None))


class _Counts(create_model("_Counts", __base__=_OpenModel, **_COUNT_FIELDS)):
    """The amounts that every cost has."""


class CostSums(_Counts):
    """Sums over executed ops: time in ns, sizes in bytes."""

    count: Count
    time_ns: Time


class DtypeSums(CostSums):
    """Sums over the ops of an element type; ``executed_flops`` are those that utilisation counts.

    Of integers, these are the operations of matrix products and convolutions.
    """

    executed_flops: Count


class _OtherAmounts(create_model("_OtherAmounts", __base__=CostSums, **_OTHER_FIELDS)):
    """The amounts of costs that only totals have; None if no cost has one."""


class CostTotals(_OtherAmounts):
    """Sums over all ops; ``low_ns`` and ``high_ns`` are the 80 % band of the time."""

    comm_ops: Count
    comm_operand_bytes: Count
    low_ns: Time | None
    high_ns: Time | None
    tags: dict[str, Count]
    gaps: Count
    assumed_loops: Count = 0  # results of older versions lack it


class ProgramStats(_OpenModel):
    """The devices, the split and the annotation of the program."""

    devices: Count
    replicas: Count
    partitions: Count
    split: str
    merge: bool
    block_limit: Count
    node: str | None
    node_overrides: str | None
    estimator: str | None
    constants: str | None
    area_mm2: Time | None = None
    leakage_w: Time | None = None
    link_pj_per_byte: Time | None = None


class UtilisationStats(_OpenModel):
    """Shares of the compute time that the work would take at the peak rates of the node."""

    flops: Share
    bandwidth: Share


class RegionStats(_Counts):
    """A distinct region; times and sizes are those of one execution."""

    id: int
    digest: str
    name: str
    ops: Count
    regions: Count
    runs: Count
    time_ns: Time
    bound: str
    dtype: str
    gap: str | None


class ReuseStats(_OpenModel):
    """How often regions repeat; rates are shares of regions and ops that repeat an earlier one."""

    regions: Count
    distinct_regions: Count
    basic_block_reuse_rate: Share
    ops: Count
    distinct_ops: Count
    operator_reuse_factor: Share


class CollectiveStats(_OpenModel):
    """Collectives of one kind, with the operand bytes of one device."""

    count: Count
    operand_bytes: Count


class CommunicatorStats(_OpenModel):
    """A communicator: its devices, and its collectives by kind."""

    ranks: list[Count]
    collectives: dict[str, CollectiveStats]


class TransferStats(_OpenModel):
    """Permutes; messages and bytes are those of all devices."""

    count: Count
    messages: Count
    message_bytes: Count


class HostCopyStats(_OpenModel):
    """Copies between a device and its host; ``step_ns`` is null if devices exchange data too."""

    count: Count
    operand_bytes: Count
    time_ns: Time
    step_ns: Time | None


class ModuleStats(_OpenModel):
    """The cost of one step of the program on one device: times in ns, sizes in bytes."""

    version: Literal["hespas.module_stats/1"] = Field(alias="schema")
    program: ProgramStats
    totals: CostTotals
    utilisation: UtilisationStats | None
    kinds: dict[str, CostSums]
    dtypes: dict[str, DtypeSums]
    bounds: dict[str, CostSums]
    classes: dict[str, CostSums] = Field(default_factory=dict)
    regions: list[RegionStats]
    reuse: ReuseStats
    communicators: dict[str, CommunicatorStats]
    transfers: TransferStats
    host_copies: HostCopyStats | None = None
