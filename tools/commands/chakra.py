"""``hespas chakra check DIR``, ``hespas chakra print FILE``."""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    from hespas.tools import chakra_cli

    return chakra_cli.main(list(argv))
