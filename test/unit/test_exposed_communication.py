"""What to fix first: exposed communication is grouped by source line."""

import pytest

from hespas.workflows.simulation_report import group_exposed_nodes


def row(name, location, exposed_s, kind="all_gather", size=1000, **others):
    return {
        "name": name, "kind": kind, "operand_bytes": size, "location": location, "count": 1,
        "needed_by": "dot", "exposed_s": exposed_s, "waiting_s": exposed_s / 4, **others,
    }  # fmt: skip


def test_nodes_of_a_kind_and_line_are_one_row():
    groups = group_exposed_nodes(
        [
            row("reduce_scatter.0", "model.py:7:3", 0.5, "reduce_scatter"),
            row("all_gather.1", "model.py:7:3", 0.3),
            row("all_gather.2", "model.py:7:19", 0.4, size=4000, needed_by=None),
            row("all_gather.3", "model.py:70:3", 0.1),
            row("all_gather.4", None, 0.02),
            row("all_gather.5", "", 0.01, needed_by=""),
        ]
    )
    assert [group.title for group in groups] == [
        "all_gather.2 +1", "reduce_scatter.0", "all_gather.3", "all_gather.4", "all_gather.5"
    ]  # fmt: skip
    first = groups[0]
    assert first.location == "model.py:7" and first.needed_by == "" and first.count == 2
    assert first.operand_text == "1.000 kB to 4.000 kB"
    assert (first.exposed_s, first.waiting_s) == pytest.approx((0.7, 0.175))
    assert groups[1].location == "model.py:7:3" and groups[1].operand_text == "1.000 kB"
