"""The figures of a served load: latencies, throughput, cost, and goodput under limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hespas.workflows.serving.request_loop import ServerRun

PERCENTILES = (50, 90, 99)
S_PER_HOUR = 3600.0


@dataclass(frozen=True)
class LatencyLimits:
    """The latencies that a request may have to count as good; None for any."""

    ttft_s: float | None = None
    tpot_s: float | None = None

    def is_met(self, ttft_s: float, tpot_s: float) -> bool:
        """Return whether the latencies of a request are within the limits."""
        return (self.ttft_s is None or ttft_s <= self.ttft_s) and (
            self.tpot_s is None or tpot_s <= self.tpot_s
        )


def compute_load_figures(
    runs: Sequence[ServerRun],
    devices: int,
    price_per_hour: float | None,
    limits: LatencyLimits,
) -> dict[str, float | int | None]:
    """Compute the figures of a load that replicas of a server have shared.

    All rates refer to the time from the first arrival to the last token.

    Args:
        runs: What each replica did.
        devices: The devices of all replicas together.
        price_per_hour: The price of a device in USD; None if it is not known.
        limits: The limits of goodput.

    Returns:
        The percentiles and the mean of the time to the first token (``ttft_p50_s``,
        ``ttft_mean_s``), of the time per output token of requests with more than one
        (``tpot_p50_s``) and of the latency; rates; the cost per million output tokens; the share of
        good requests and their rate.
    """
    served = [request for run in runs for request in run.served]
    span_s = max(one.end_s for one in served) - min(one.request.arrival_s for one in served)
    output_tokens = sum(one.request.output_tokens for one in served)
    good = sum(limits.is_met(one.ttft_s, one.tpot_s) for one in served)
    steps = sum(run.decode_steps for run in runs)
    decoded = sum(one.request.output_tokens - 1 for one in served)
    cost_usd = None if price_per_hour is None else price_per_hour * devices * span_s / S_PER_HOUR
    return {
        "requests": len(served),
        **_describe_values("ttft", [one.ttft_s for one in served]),
        **_describe_values("tpot", [one.tpot_s for one in served if one.request.output_tokens > 1]),
        **_describe_values("latency", [one.latency_s for one in served]),
        "requests_per_s": len(served) / span_s,
        "output_tokens_per_s": output_tokens / span_s,
        "output_tokens_per_s_per_device": output_tokens / span_s / devices,
        "usd_per_million_tokens": cost_usd and 1e6 * cost_usd / output_tokens,
        "good_share": good / len(served),
        "goodput_per_s": good / span_s,
        "mean_batch": decoded / steps if steps else None,
        "largest_batch": max(run.largest_batch for run in runs),
        "prefill_share": sum(run.prefill_s for run in runs) / (len(runs) * span_s),
        "busy_share": sum(run.prefill_s + run.decode_s for run in runs) / (len(runs) * span_s),
    }


def _describe_values(name: str, values: Sequence[float]) -> dict[str, float | None]:
    """Compute percentiles, interpolated linearly between requests, and the mean; None of none."""
    names = [*(f"{name}_p{percent}_s" for percent in PERCENTILES), f"{name}_mean_s"]
    if not values:
        return dict.fromkeys(names)
    levels = np.quantile(values, [percent / 100 for percent in PERCENTILES])
    return dict(zip(names, [*map(float, levels), float(np.mean(values))], strict=True))
