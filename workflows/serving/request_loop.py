"""Continuous batching: which requests a server prefills and decodes in each step.

The policy is that of vLLM before chunked prefill, and of JetStream: *prefill first*. Before each
step, the oldest request that has arrived is admitted if a slot of the batch and memory for all its
tokens are free. It is then prefilled alone, which delays the sequences that are being decoded, and
gives its first token. If no request can be admitted, all admitted requests are decoded together,
and each gets a token. Requests are admitted in the order of their arrival, none overtakes another.

Invariant: the memory of admitted requests is reserved until they end, so that none has to be
preempted. vLLM admits a request when its prompt fits, and preempts it if memory runs out later; its
batches can be larger at first.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

from hespas.support.errors import UsageError
from hespas.workflows.serving.serving_requests import ServingRequest
from hespas.workflows.serving.serving_steps import StepTimes


@dataclass(frozen=True)
class ServerLimits:
    """What limits the requests that a server runs at the same time.

    Attributes:
        cache_tokens: The tokens for which there is memory.
        page_tokens: The tokens of a page, of which each request has a whole number.
        slots: The most sequences that are decoded together.
    """

    cache_tokens: int
    page_tokens: int
    slots: int

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
        most_reserved_tokens: The most tokens for which memory was reserved at one time.
    """

    served: Sequence[ServedRequest]
    prefill_s: float
    decode_s: float
    decode_steps: int
    largest_batch: int
    most_reserved_tokens: int


def serve_requests(
    requests: Sequence[ServingRequest], times: StepTimes, limits: ServerLimits
) -> ServerRun:
    """Run a server until all requests have ended.

    Raises:
        UsageError: A request is too long for the buckets or the memory.
    """
    for request in requests:
        _check_request(request, times, limits)
    ordered = sorted(requests, key=lambda request: request.arrival_s)
    server = _RequestServer(ordered, times, limits)
    while server.step():
        pass
    return ServerRun(
        [
            ServedRequest(request, first, end)
            for request, first, end in zip(ordered, server.first_token_s, server.end_s, strict=True)
        ],
        server.prefill_s,
        server.decode_s,
        server.decode_steps,
        server.largest_batch,
        server.most_reserved_tokens,
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
        self, requests: Sequence[ServingRequest], times: StepTimes, limits: ServerLimits
    ) -> None:
        self.requests, self.times, self.limits = requests, times, limits
        self.clock_s = 0.0
        self.admitted = 0  # how many requests, in the order of arrival
        self.ends: list[tuple[int, int]] = []  # (last decode step, request)
        self.cached_tokens = 0  # of the sequences that are decoded
        self.reserved_tokens = 0
        self.first_token_s = [0.0] * len(requests)
        self.end_s = [0.0] * len(requests)
        self.prefill_s = self.decode_s = 0.0
        self.decode_steps = self.largest_batch = self.most_reserved_tokens = 0

    def step(self) -> bool:
        """Run the next step; return False if no request is left."""
        if self._can_admit():
            self._prefill_next()
        elif self.ends:
            self._decode_all()
        elif self.admitted < len(self.requests):
            self.clock_s = self.requests[self.admitted].arrival_s
        else:
            return False
        return True

    def _can_admit(self) -> bool:
        if self.admitted == len(self.requests) or len(self.ends) >= self.limits.slots:
            return False
        request = self.requests[self.admitted]
        reserved = self.reserved_tokens + self.limits.reserve_tokens(request)
        return request.arrival_s <= self.clock_s and reserved <= self.limits.cache_tokens

    def _prefill_next(self) -> None:
        number, request = self.admitted, self.requests[self.admitted]
        self.admitted += 1
        duration_s = self.times.get_prefill_s(request.prompt_tokens)
        self.clock_s += duration_s
        self.prefill_s += duration_s
        self.first_token_s[number] = self.end_s[number] = self.clock_s
        reserved = self.reserved_tokens + self.limits.reserve_tokens(request)
        self.most_reserved_tokens = max(self.most_reserved_tokens, reserved)
        if request.output_tokens > 1:
            self.reserved_tokens = reserved
            self.cached_tokens += request.prompt_tokens
            heapq.heappush(self.ends, (self.decode_steps + request.output_tokens - 1, number))

    def _decode_all(self) -> None:
        batch = len(self.ends)
        self.cached_tokens += batch  # each attends to its last token too
        duration_s = self.times.interpolate_decode_s(batch, self.cached_tokens)
        self.clock_s += duration_s
        self.decode_s += duration_s
        self.decode_steps += 1
        self.largest_batch = max(self.largest_batch, batch)
        while self.ends and self.ends[0][0] == self.decode_steps:
            _, number = heapq.heappop(self.ends)
            request = self.requests[number]
            self.end_s[number] = self.clock_s
            self.cached_tokens -= request.total_tokens - 1
            self.reserved_tokens -= self.limits.reserve_tokens(request)
