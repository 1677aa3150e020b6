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


class _Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Sums(_Open):
    """Over ops executed: time in ns, sizes in bytes."""

    count: Count
    time_ns: Time
    flops: Count
    read_bytes: Count
    write_bytes: Count


class Totals(Sums):
    """Over all ops; ``low_ns`` and ``high_ns`` are the 80 % band of the time."""

    comm_ops: Count
    comm_operand_bytes: Count
    energy_nj: Time | None
    low_ns: Time | None
    high_ns: Time | None
    tags: dict[str, Count]
    gaps: Count


class Program(_Open):
    """What was estimated, how it was split, and where the numbers come from."""

    devices: Count
    replicas: Count
    partitions: Count
    split: str
    merge: bool
    block_limit: Count
    node: str | None
    estimator: str | None
    constants: str | None


class Utilisation(_Open):
    """Shares of the compute time at the node's peak rates."""

    flops: Share
    bandwidth: Share


class RegionRow(_Open):
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


class Reuse(_Open):
    """How often regions repeat."""

    regions: Count
    distinct_regions: Count
    basic_block_reuse_rate: Share
    ops: Count
    distinct_ops: Count
    operator_reuse_factor: Share


class Collective(_Open):
    """Collectives of a kind, with the operand bytes of one device."""

    count: Count
    operand_bytes: Count


class Communicator(_Open):
    """Devices that communicate, and what they do."""

    ranks: list[Count]
    collectives: dict[str, Collective]


class Transfers(_Open):
    """Permutes; the bytes are over all devices."""

    count: Count
    messages: Count
    message_bytes: Count


class ModuleStats(_Open):
    """What one step of the program costs on one device: times in ns, sizes in bytes."""

    version: Literal["hespas.module_stats/1"] = Field(alias="schema")
    program: Program
    totals: Totals
    utilisation: Utilisation | None
    kinds: dict[str, Sums]
    dtypes: dict[str, Sums]
    bounds: dict[str, Sums]
    regions: list[RegionRow]
    reuse: Reuse
    communicators: dict[str, Communicator]
    transfers: Transfers
