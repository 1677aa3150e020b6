"""The requests to a server: a trace in a CSV file, or arrivals that are drawn at random."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass

from hespas.support.csv_rows import read_csv_rows
from hespas.support.errors import HespasError, UsageError

COLUMNS = ("arrival_s", "prompt_tokens", "output_tokens")


@dataclass(frozen=True, slots=True)
class ServingRequest:
    """A request: when it arrives, and its tokens, which the server knows when it admits it."""

    arrival_s: float
    prompt_tokens: int
    output_tokens: int

    @property
    def total_tokens(self) -> int:
        """The tokens in the cache when the request ends, at most."""
        return self.prompt_tokens + self.output_tokens


def draw_poisson_requests(
    rate_per_s: float, count: int, prompt_tokens: int, output_tokens: int, seed: int
) -> list[ServingRequest]:
    """Draw requests of one size that arrive independently of each other, at a mean rate.

    Equal seeds give the same arrivals, scaled by the rate.
    """
    if not (rate_per_s > 0 and math.isfinite(rate_per_s)):
        raise UsageError(f"an arrival rate of {rate_per_s:g} requests/s", remedy="use one above 0")
    random_gaps, clock_s, requests = random.Random(seed), 0.0, []
    for _ in range(count):
        clock_s += random_gaps.expovariate(1.0) / rate_per_s
        requests.append(ServingRequest(clock_s, prompt_tokens, output_tokens))
    return requests


def read_request_trace(path: str) -> list[ServingRequest]:
    """Read requests from a CSV file with the columns of ``COLUMNS``, in the order of arrival.

    Raises:
        HespasError: The file cannot be read, or a row is no request; the message has its line.
    """
    requests = []
    for line, row in read_csv_rows(path, COLUMNS):
        try:
            requests.append(_parse_row(row))
        except ValueError as error:
            raise HespasError(str(error), where=f"{path}:{line}") from None
    if not requests:
        raise HespasError("the trace has no requests", where=path)
    return sorted(requests, key=lambda request: request.arrival_s)


def _parse_row(row: Mapping[str, str | None]) -> ServingRequest:
    """Parse a row; raises ValueError with the reason."""
    texts = [(row[name] or "").strip() for name in COLUMNS]
    try:
        arrival_s = float(texts[0])
    except ValueError:
        arrival_s = math.nan
    if not (arrival_s >= 0 and math.isfinite(arrival_s)):
        raise ValueError(f"arrival_s is '{texts[0]}', not a time in seconds from 0")
    counts = []
    for name, text in zip(COLUMNS[1:], texts[1:], strict=True):
        if not text.isascii() or not text.isdecimal() or not 0 < int(text) < 1 << 53:
            raise ValueError(f"{name} is '{text}', not a whole number from 1")
        counts.append(int(text))
    return ServingRequest(arrival_s, *counts)
