"""What can go wrong in a worker. Importing it imports no bindings: workers do."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Any, Literal, get_args

Kind = Literal["unsupported", "error", "memory", "crash", "timeout"]
KINDS: tuple[str, ...] = get_args(Kind)
AGAIN: tuple[Kind, ...] = ("memory", "crash", "timeout")  # may be the worker's and not the region's


def ending(code: int) -> str:
    """How a process of this exit code ended: ``exited with code 3``, ``crashed (SIGSEGV)``."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"crashed ({signal.Signals(-code).name})"
    except ValueError:
        return f"crashed (signal {-code})"


class Unsupported(Exception):
    """Raised by a worker for what this compiler or device can never run; the cache keeps it."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no result: ``kind``, what happened in a line, the worker's last lines."""

    kind: Kind
    message: str
    said: tuple[str, ...] = ()

    def text(self) -> str:
        """All of it in one line."""
        if self.kind in ("unsupported", "error") or not self.said:
            return self.message
        return f"{self.message}; its last words: {' | '.join(self.said)}"

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "message": self.message, "said": list(self.said)}

    @staticmethod
    def of(data: dict[str, Any]) -> Failure:
        return Failure(data["kind"], data["message"], tuple(data["said"]))
