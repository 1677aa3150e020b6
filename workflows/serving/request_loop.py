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
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hespas.support.errors import UsageError
from hespas.workflows.serving.serving_requests import ServingRequest
from hespas.workflows.serving.serving_steps import StepTimes

BatchingPolicy = Literal["prefill-first", "alternate"]


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
        most_reserved_tokens: The most tokens for which memory was reserved at one time.
    """

    served: Sequence[ServedRequest]
    prefill_s: float
    decode_s: float
    decode_steps: int
    largest_batch: int
    most_reserved_tokens: int


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
        self.decode_steps = self.largest_batch = self.most_reserved_tokens = 0

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
        reserved = self.reserved_tokens + self.limits.reserve_tokens(request)
        self.most_reserved_tokens = max(self.most_reserved_tokens, reserved)
        if request.output_tokens > 1:
            self.reserved_tokens = reserved
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
