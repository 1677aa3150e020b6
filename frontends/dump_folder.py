"""Folders of XLA's dumps (``--xla_dump_to``): the file of the program that runs."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from hespas.support.errors import HespasError

# What XLA writes of a program after its last pass, as a protobuf and as text.
_OPTIMISED = r"after_optimizations\.(?P<form>hlo\.pb|txt)(\.(gz|xz))?$"
_HLO = r"\.(?P<form>hlo\.pb|hlo)(\.(gz|xz))?$"


def find_dumped_program(folder: str) -> str:
    """Return the path of the HLO of the only program in a folder, optimised if XLA dumped that.

    Raises:
        HespasError: The folder has no HLO, or that of several programs.
    """
    names = sorted(os.listdir(folder))
    for pattern in (_OPTIMISED, _HLO):
        programs: dict[str, str] = {}
        for name in names:
            match = re.search(pattern, name)
            if match and (name[: match.start()] not in programs or match["form"] == "hlo.pb"):
                programs[name[: match.start()]] = os.path.join(folder, name)
        if len(programs) > 1:
            raise _refuse_several(folder, list(programs.values()))
        if programs:
            return next(iter(programs.values()))
    raise HespasError(
        "the folder has no HLO",
        where=folder,
        remedy="dump it with XLA_FLAGS='--xla_dump_to=FOLDER --xla_dump_hlo_as_proto'",
    )


def _refuse_several(folder: str, paths: Sequence[str]) -> HespasError:
    largest = max(paths, key=os.path.getsize)
    return HespasError(
        f"the folder has the HLO of {len(paths)} programs",
        where=folder,
        remedy=f"name the file of one; the largest is {largest}",
    )
