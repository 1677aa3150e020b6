"""Inputs that end the process inside MLIR's parser, recognised in the text before it is parsed."""

from __future__ import annotations

import re
from mmap import mmap

from hespas.support.errors import HespasError

# MLIR's verifier of all_to_all divides by the number of groups.
_EMPTY_GROUPS = rb"replica_groups\s*=\s*dense<[^<>]*>\s*:\s*tensor<0x\d+xi\d+>"
_OP_NAME = rb'"(?:stablehlo|mhlo)\.(\w+)"'
_LONGEST_OP_BYTES = 4096


def check_native_faults(text: bytes | mmap, name: str) -> None:
    """Raise HespasError for text in which MLIR's parser ends the process."""
    for match in re.finditer(_EMPTY_GROUPS, text):
        before = text[max(0, match.start() - _LONGEST_OP_BYTES) : match.start()]
        ops = list(re.finditer(_OP_NAME, before))
        if ops and ops[-1][1] == b"all_to_all":
            start = match.start() - len(before) + ops[-1].start()
            line = text[:start].count(b"\n") + 1
            column = start - text.rfind(b"\n", 0, start)
            raise HespasError(
                "the replica groups of the all_to_all are empty",
                where=f"{name}:{line}:{column}",
                remedy="list the devices of each group",
            )
