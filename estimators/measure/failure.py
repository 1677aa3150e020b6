"""The failures of a worker. This module imports no MLIR bindings, because workers import it."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Any, Literal

from hespas.support.errors import HespasError

FailureKind = Literal["unsupported", "error", "memory", "crash", "timeout"]
# These may be caused by the worker process and not by the region.
RETRIED_KINDS: tuple[FailureKind, ...] = ("memory", "crash", "timeout")


def describe_exit_code(code: int) -> str:
    """Describe the end of a process: ``exited with code 3``, ``crashed (SIGSEGV)``."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"crashed ({signal.Signals(-code).name})"
    except ValueError:
        return f"crashed (signal {-code})"


class UnsupportedError(Exception):
    """Raised by a worker if the compiler or device can never run the payload; it is cached."""


class ClusterLostError(HespasError):
    """The cluster stopped while it worked; the results that it has returned are kept."""

    def __init__(self, message: str) -> None:
        super().__init__(
            message,
            remedy="results so far are kept in the cache: run the same command to continue, with "
            "a cluster that runs, or without --dask",
        )


@dataclass(frozen=True, slots=True)
class WorkerFailure:
    """The reason why there is no result.

    Attributes:
        kind: The kind of failure.
        message: What happened, in one line.
        last_lines: The last lines that the worker printed.
    """

    kind: FailureKind
    message: str
    last_lines: tuple[str, ...] = ()

    def format_message(self) -> str:
        """Return the whole failure in one line."""
        if self.kind in ("unsupported", "error"):
            return self.message
        if not self.last_lines:
            return f"{self.message} and printed nothing" if self.kind == "crash" else self.message
        return f"{self.message}; its last lines: {' | '.join(self.last_lines)}"

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "message": self.message, "said": list(self.last_lines)}

    @staticmethod
    def from_json(data: dict[str, Any]) -> WorkerFailure:
        return WorkerFailure(data["kind"], data["message"], tuple(data["said"]))
