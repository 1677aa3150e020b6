"""Clock cycles that ops take for an element: XLA's tables of GPUs, ``op_cycles.json``."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

from hespas import configs
from hespas.support.records import record

PATH = Path(__file__).parent / "op_cycles.json"


@record(frozen=True, eq=False)
class OpCycles:
    """The table of one GPU.

    Attributes:
        usual: The cycles of ops that it does not list.
        by_type: The others, by element type and by the name of the op without its dialect.
    """

    usual: int
    by_type: Mapping[str, Mapping[str, int]]

    def find_cycles(self, name: str, element_type: str) -> int:
        """Return the cycles of an op for an element."""
        return self.by_type.get(element_type, {}).get(name, self.usual)


@functools.cache
def read_op_cycles(profile: str) -> OpCycles:
    """Read the table of the GPUs of a compute capability, such as ``sm_80``.

    XLA takes its default for those of which it has none (HloOpProfiles::GetProfile).
    """
    data = configs.read_json(PATH)
    tables = data["profiles"]
    return OpCycles(data["usual"], tables.get(profile, tables[data["default"]]))
