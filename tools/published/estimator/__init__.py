"""The estimator commands of the published Hespas, ``python -m hespas.estimator.NAME_estimator``.

hespas does not have them: each ends with an error that names the command to use instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from hespas.support.errors import UsageError
from hespas.tools import console_scripts


def refuse_estimator_command(method: str) -> None:
    """Print the error of one command, and exit with code 2."""

    def refuse(argv: Sequence[str]) -> int:
        raise UsageError(
            f"hespas.estimator.{method}_estimator is a command of the published Hespas",
            remedy=f"run hespas_chakra_gen CONFIG, or hespas run --mlir FILE --estimator {method}",
        )

    console_scripts.script(refuse)
