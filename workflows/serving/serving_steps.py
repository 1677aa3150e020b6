"""The times of a server's steps, from programs of fixed shapes."""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from hespas.support.errors import UsageError


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
    def longest_prompt(self) -> int:
        return max(self.prefill_s)

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
                f"{self.longest_prompt}",
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
