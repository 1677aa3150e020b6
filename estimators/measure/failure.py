"""What can go wrong in a worker. Importing it imports no bindings: workers do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

Kind = Literal["unsupported", "error", "memory", "crash", "timeout"]
KINDS: tuple[str, ...] = get_args(Kind)
AGAIN: tuple[Kind, ...] = ("memory", "crash", "timeout")  # may be the worker's and not the region's


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
