"""Continuous batching: which requests a server prefills and decodes in each step.

The oldest request that has arrived is admitted if a slot of the batch and memory for all its tokens
are free. It is then prefilled alone, which delays the sequences that are being decoded, and gives
its first token. In a decode step, all admitted requests get a token. Requests are admitted in the
order of their arrival, none overtakes another. There are two policies:

- ``prefill-first``: a request is admitted before each step if possible, as in vLLM before chunked
  prefill and in JetStream.
- ``alternate``: a decode step follows each prefill step. Together they do the work of a step of a
  server that decodes and prefills in one program, as vLLM and TensorRT-LLM do today. Such a program
  reads the weights once for both, so that the sum of the two times is an upper bound.

With ``chunk_tokens``, a longer prompt is prefilled in several steps, each as above. With
``alternate``, it thus delays the sequences that are decoded by one chunk at a time. The request has
its first token with the last chunk, and no other request is admitted before.

Invariant: the memory of admitted requests is reserved until they end, so that none has to be
preempted. vLLM admits a request when its prompt fits, and preempts it if memory runs out later; its
batches can be larger at first.

Requests are a trace in a CSV file, or arrivals that are drawn at random. The times of steps come
from programs of fixed shapes.
"""

from __future__ import annotations

import bisect
import heapq
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from hespas.support.csv_rows import read_csv_rows
from hespas.support.errors import HespasError, UsageError

BatchingPolicy = Literal["prefill-first", "alternate"]
COLUMNS = ("arrival_s", "prompt_tokens", "output_tokens")


@dataclass(frozen=True)
class ServerLimits:
    """What limits the requests that a server runs at the same time.

    Attributes:
        cache_tokens: The tokens for which there is memory.
        page_tokens: The tokens of a page, of which each request has a whole number.
        slots: The most sequences that are decoded together.
        chunk_tokens: The most tokens of a prompt that one step prefills; None for whole prompts.
    """

    cache_tokens: int
    page_tokens: int
    slots: int
    chunk_tokens: int | None = None

    def reserve_tokens(self, request: ServingRequest) -> int:
        """Return the tokens for which a request reserves memory."""
        return math.ceil(request.total_tokens / self.page_tokens) * self.page_tokens


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """A request with the times of its first and its last token."""

    request: ServingRequest
    first_token_s: float
    end_s: float

    @property
    def ttft_s(self) -> float:
        """The time to the first token, from the arrival."""
        return self.first_token_s - self.request.arrival_s

    @property
    def tpot_s(self) -> float:
        """The mean time of an output token after the first one; 0 if there is only one."""
        return (self.end_s - self.first_token_s) / max(self.request.output_tokens - 1, 1)

    @property
    def latency_s(self) -> float:
        """The time from the arrival to the last token."""
        return self.end_s - self.request.arrival_s


@dataclass(frozen=True)
class ServerRun:
    """What a server did.

    Attributes:
        served: The requests, in the order of their arrival.
        prefill_s: The time spent on prefill steps.
        decode_s: The time spent on decode steps.
        decode_steps: The number of decode steps.
        largest_batch: The most sequences that were decoded together.
    """

    served: Sequence[ServedRequest]
    prefill_s: float
    decode_s: float
    decode_steps: int
    largest_batch: int


def serve_requests(
    requests: Sequence[ServingRequest],
    times: StepTimes,
    limits: ServerLimits,
    clients: int | None = None,
    policy: BatchingPolicy = "prefill-first",
) -> ServerRun:
    """Run a server until all requests have ended.

    Args:
        requests: The requests.
        times: The times of the server's steps.
        limits: What limits the requests that run at the same time.
        clients: The number of clients, each of which sends its next request when its last one has
            ended; the arrivals of the requests then give their order only. None for requests that
            arrive at their own times.
        policy: When requests are admitted.

    Raises:
        UsageError: A request is too long for the buckets or the memory.
    """
    for request in requests:
        _check_request(request, times, limits)
    ordered = sorted(requests, key=lambda request: request.arrival_s)
    server = _RequestServer(ordered, times, limits, clients, policy)
    while server.step():
        pass
    return ServerRun(
        [
            ServedRequest(replace(request, arrival_s=arrival_s), first_s, end_s)
            for request, arrival_s, first_s, end_s in zip(
                ordered, server.arrival_s, server.first_token_s, server.end_s, strict=True
            )
        ],
        server.prefill_s,
        server.decode_s,
        server.decode_steps,
        server.largest_batch,
    )


def _check_request(request: ServingRequest, times: StepTimes, limits: ServerLimits) -> None:
    """Raise UsageError if a request could never run."""
    times.get_prefill_s(request.prompt_tokens)
    if request.total_tokens > times.longest_context:
        raise UsageError(
            f"a request of {request.total_tokens} tokens is longer than the largest bucket, "
            f"{times.longest_context}",
            remedy="give a larger one in --contexts",
        )
    if limits.reserve_tokens(request) > limits.cache_tokens:
        raise UsageError(
            f"a request of {request.total_tokens} tokens does not fit beside the weights: there "
            f"is memory for {limits.cache_tokens}",
            remedy="use more devices (--tensor), or 8 bits (--set weights=fp8)",
        )


class _RequestServer:
    """The state of a server between two steps.

    A request that is admitted at a decode step n ends after step n + output_tokens - 1, whatever
    happens in between. The heap ``ends`` therefore holds these steps.
    """

    def __init__(
        self,
        requests: Sequence[ServingRequest],
        times: StepTimes,
        limits: ServerLimits,
        clients: int | None,
        policy: BatchingPolicy,
    ) -> None:
        self.requests, self.times, self.limits = requests, times, limits
        self.alternates, self.has_just_prefilled = policy == "alternate", False
        self.sent = len(requests) if clients is None else min(clients, len(requests))
        self.arrival_s = [request.arrival_s for request in requests]
        if clients is not None:
            self.arrival_s = [0.0] * self.sent + [math.inf] * (len(requests) - self.sent)
        self.clock_s = 0.0
        self.admitted = 0  # how many requests, in the order of arrival
        self.prefilled_tokens = 0  # of the next request, whose prompt is prefilled in chunks
        self.ends: list[tuple[int, int]] = []  # (last decode step, request)
        self.cached_tokens = 0  # of the sequences that are decoded
        self.reserved_tokens = 0
        self.first_token_s = [0.0] * len(requests)
        self.end_s = [0.0] * len(requests)
        self.prefill_s = self.decode_s = 0.0
        self.decode_steps = self.largest_batch = 0

    def step(self) -> bool:
        """Run the next step; return False if no request is left."""
        must_decode = self.alternates and self.has_just_prefilled and self.ends
        if not must_decode and self._can_admit():
            self._prefill_next()
        elif self.ends:
            self._decode_all()
        elif self.admitted < len(self.requests):
            self.clock_s = self.arrival_s[self.admitted]
        else:
            return False
        return True

    def _can_admit(self) -> bool:
        if self.admitted == len(self.requests) or len(self.ends) >= self.limits.slots:
            return False
        request = self.requests[self.admitted]
        reserved = self.reserved_tokens + self.limits.reserve_tokens(request)
        has_arrived = self.arrival_s[self.admitted] <= self.clock_s
        return has_arrived and reserved <= self.limits.cache_tokens

    def _prefill_next(self) -> None:
        number, request = self.admitted, self.requests[self.admitted]
        self.has_just_prefilled = True
        duration_s = self._prefill_chunk(request)
        self.clock_s += duration_s
        self.prefill_s += duration_s
        if self.prefilled_tokens:
            return
        self.admitted += 1
        self.first_token_s[number] = self.clock_s
        if request.output_tokens > 1:
            self.reserved_tokens += self.limits.reserve_tokens(request)
            self.cached_tokens += request.prompt_tokens
            heapq.heappush(self.ends, (self.decode_steps + request.output_tokens - 1, number))
        else:
            self._end_request(number)

    def _prefill_chunk(self, request: ServingRequest) -> float:
        """Prefill the next tokens of a prompt, and return the time that they take."""
        chunk, start = self.limits.chunk_tokens, self.prefilled_tokens
        if chunk is None or request.prompt_tokens <= chunk:
            return self.times.get_prefill_s(request.prompt_tokens)
        end = min(start + chunk, request.prompt_tokens)
        self.prefilled_tokens = end if end < request.prompt_tokens else 0
        return self.times.interpolate_chunk_s(start, end)

    def _decode_all(self) -> None:
        batch = len(self.ends)
        self.has_just_prefilled = False
        self.cached_tokens += batch  # each attends to its last token too
        duration_s = self.times.interpolate_decode_s(batch, self.cached_tokens)
        self.clock_s += duration_s
        self.decode_s += duration_s
        self.decode_steps += 1
        self.largest_batch = max(self.largest_batch, batch)
        while self.ends and self.ends[0][0] == self.decode_steps:
            _, number = heapq.heappop(self.ends)
            request = self.requests[number]
            self.cached_tokens -= request.total_tokens - 1
            self.reserved_tokens -= self.limits.reserve_tokens(request)
            self._end_request(number)

    def _end_request(self, number: int) -> None:
        """End a request; its client sends the next one if clients wait for answers."""
        self.end_s[number] = self.clock_s
        if self.sent < len(self.requests):
            self.arrival_s[self.sent] = self.clock_s
            self.sent += 1


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


@dataclass(frozen=True)
class StepTimes:
    """The times of the programs of a server, which JAX compiles for fixed shapes (buckets).

    - A prompt is padded to the next bucket of prompts, and takes the time of its program.
    - The sequences that are decoded together are padded to the next bucket of batches. Rows that
      only pad hold no tokens. Between buckets of contexts, the time is linear in the tokens of all
      sequences together, because attention reads each of them once. With fewer tokens than those
      of the smallest context, it is the time of that one.

    Attributes:
        prefill_s: The time of a prefill step in seconds, by the tokens of the prompt.
        decode_s: The time of a decode step in seconds, by the batch, then by the tokens of each
            sequence.
    """

    prefill_s: Mapping[int, float]
    decode_s: Mapping[int, Mapping[int, float]]

    @cached_property
    def largest_batch(self) -> int:
        return max(self.decode_s)

    @cached_property
    def longest_context(self) -> int:
        """The longest context that every batch has."""
        return min(max(times) for times in self.decode_s.values())

    @cached_property
    def _prompts(self) -> list[int]:
        return sorted(self.prefill_s)

    @cached_property
    def _batches(self) -> list[int]:
        return sorted(self.decode_s)

    @cached_property
    def _contexts(self) -> dict[int, list[int]]:
        return {batch: sorted(times) for batch, times in self.decode_s.items()}

    def get_prefill_s(self, prompt_tokens: int) -> float:
        """Return the time of the prefill step of a prompt; raises UsageError if none is so long."""
        at = bisect.bisect_left(self._prompts, prompt_tokens)
        if at == len(self._prompts):
            raise UsageError(
                f"a prompt of {prompt_tokens} tokens is longer than the largest bucket, "
                f"{self._prompts[-1]}",
                remedy="give a larger one in --prompts",
            )
        return self.prefill_s[self._prompts[at]]

    def interpolate_chunk_s(self, start: int, end: int) -> float:
        """Return the time to prefill the tokens of a prompt from ``start`` to ``end``.

        The chunk does what prompts of these two lengths differ in, which attends to the tokens
        before it, and takes at least the time of the smallest prompt: it reads all weights.
        """
        difference_s = self._interpolate_prefill_s(end) - self._interpolate_prefill_s(start)
        return max(difference_s, self.prefill_s[self._prompts[0]])

    def _interpolate_prefill_s(self, tokens: int) -> float:
        """Return the time of a prompt that is not padded, linear between buckets and from 0."""
        at = bisect.bisect_left(self._prompts, tokens)
        high = self._prompts[at]
        low = self._prompts[at - 1] if at else 0
        low_s = self.prefill_s[low] if at else 0.0
        return low_s + (tokens - low) / (high - low) * (self.prefill_s[high] - low_s)

    def interpolate_decode_s(self, batch: int, tokens: int) -> float:
        """Return the time of a decode step.

        Args:
            batch: The sequences that are decoded.
            tokens: The tokens that all of them attend to together.
        """
        padded = self._batches[bisect.bisect_left(self._batches, batch)]
        times, contexts = self.decode_s[padded], self._contexts[padded]
        mean = tokens / padded
        at = bisect.bisect_left(contexts, mean)
        if at == 0 or at == len(contexts):
            return times[contexts[min(at, len(contexts) - 1)]]
        low, high = contexts[at - 1], contexts[at]
        share = (mean - low) / (high - low)
        return times[low] + share * (times[high] - times[low])
