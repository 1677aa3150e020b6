"""What ``module_stats.json`` holds, as models: its JSON Schema is made of them.

docs/reference/module-stats.md tells the meaning of each key. Keys may be added without a new
``schema``, so that a reader must not refuse them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0)]
Time = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class _OpenModel(BaseModel):
    model_config = ConfigDict(extra="allow")


class CostSums(_OpenModel):
    """Over ops executed: time in ns, sizes in bytes."""

    count: Count
    time_ns: Time
    flops: Count
    read_bytes: Count
    write_bytes: Count


class CostTotals(CostSums):
    """Over all ops; ``low_ns`` and ``high_ns`` are the 80 % band of the time."""

    comm_ops: Count
    comm_operand_bytes: Count
    energy_nj: Time | None
    low_ns: Time | None
    high_ns: Time | None
    tags: dict[str, Count]
    gaps: Count


class ProgramStats(_OpenModel):
    """What was estimated, how it was split, and where the numbers come from."""

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


class UtilisationStats(_OpenModel):
    """Shares of the compute time at the node's peak rates."""

    flops: Share
    bandwidth: Share


class RegionStats(_OpenModel):
    """A distinct region; figures are of one run."""

    id: int
    digest: str
    name: str
    ops: Count
    regions: Count
    runs: Count
    time_ns: Time
    flops: Count
    read_bytes: Count
    write_bytes: Count
    bound: str
    dtype: str
    gap: str | None


class ReuseStats(_OpenModel):
    """How often regions repeat."""

    regions: Count
    distinct_regions: Count
    basic_block_reuse_rate: Share
    ops: Count
    distinct_ops: Count
    operator_reuse_factor: Share


class CollectiveStats(_OpenModel):
    """Collectives of a kind, with the operand bytes of one device."""

    count: Count
    operand_bytes: Count


class CommunicatorStats(_OpenModel):
    """Devices that communicate, and what they do."""

    ranks: list[Count]
    collectives: dict[str, CollectiveStats]


class TransferStats(_OpenModel):
    """Permutes; the bytes are over all devices."""

    count: Count
    messages: Count
    message_bytes: Count


class ModuleStats(_OpenModel):
    """What one step of the program costs on one device: times in ns, sizes in bytes."""

    version: Literal["hespas.module_stats/1"] = Field(alias="schema")
    program: ProgramStats
    totals: CostTotals
    utilisation: UtilisationStats | None
    kinds: dict[str, CostSums]
    dtypes: dict[str, CostSums]
    bounds: dict[str, CostSums]
    regions: list[RegionStats]
    reuse: ReuseStats
    communicators: dict[str, CommunicatorStats]
    transfers: TransferStats
