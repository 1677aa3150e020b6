"""Random programs of trace steps."""

from __future__ import annotations

import random

from hespas.chakra.trace_steps import (
    CollectiveContent,
    ComputeContent,
    ProgramTrace,
    TransferContent,
)
from hespas.passes.emit.trace_order import NOTHING

DEVICES = 4
GROUPS = {1: (0, 1, 2, 3), 2: (0, 1), 3: (2, 3)}
NS = 1_000_000  # femtoseconds


def random_trace(seed, order_class):
    """A random program of compute, collectives that all or some ranks take part in, transfers."""
    r = random.Random(seed)
    trace = ProgramTrace(DEVICES, GROUPS)
    order = order_class(trace)
    values = [NOTHING]
    for i in range(r.randint(0, 50)):
        value = order.join_values(
            [r.choice(values[-r.randint(1, 12) :]) for _ in range(r.randint(0, 3))]
        )
        kind = r.random()
        is_async = r.random() < 0.5
        if kind < 0.6:
            values.append(
                order.add_compute_step(ComputeContent(f"c{i}", r.randint(1, 60_000) * NS), value)
            )
        elif kind < 0.66:
            values.append(value)
        elif kind < 0.72:
            values.append(order.wait_for_value(value))
        elif kind < 0.88:
            groups = r.choice([(1,), (2, 3), (2,), (3,)])
            content = CollectiveContent(
                f"a{i}", r.choice([0, 2, 6, 7]), r.randint(1, 400_000), groups
            )
            values.append(order.add_communication_step(content, value, is_async))
        else:
            targets = r.sample(range(DEVICES), DEVICES)
            some = [(s, t) for s, t in enumerate(targets) if s != t and r.random() < 0.6]
            if some:
                content = TransferContent(f"p{i}", r.randint(1, 400_000), tuple(some))
                values.append(order.add_communication_step(content, value, is_async))
    return trace
