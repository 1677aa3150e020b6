"""What can go wrong in a worker. Importing it imports no bindings: workers do."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Any, Literal, get_args

FailureKind = Literal["unsupported", "error", "memory", "crash", "timeout"]
FAILURE_KINDS: tuple[str, ...] = get_args(FailureKind)
RETRIED_KINDS: tuple[FailureKind, ...] = (
    "memory",
    "crash",
    "timeout",
)  # may be the worker's and not the region's


def describe_exit_code(code: int) -> str:
    """How a process of this exit code ended: ``exited with code 3``, ``crashed (SIGSEGV)``."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"crashed ({signal.Signals(-code).name})"
    except ValueError:
        return f"crashed (signal {-code})"


class UnsupportedError(Exception):
    """Raised by a worker for what this compiler or device can never run; the cache keeps it."""


@dataclass(frozen=True, slots=True)
class WorkerFailure:
    """Why there is no result: ``kind``, what happened in a line, the worker's last lines."""

    kind: FailureKind
    message: str
    last_lines: tuple[str, ...] = ()

    def format_message(self) -> str:
        """All of it in one line."""
        if self.kind in ("unsupported", "error") or not self.last_lines:
            return self.message
        return f"{self.message}; its last words: {' | '.join(self.last_lines)}"

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "message": self.message, "said": list(self.last_lines)}

    @staticmethod
    def from_json(data: dict[str, Any]) -> WorkerFailure:
        return WorkerFailure(data["kind"], data["message"], tuple(data["said"]))
