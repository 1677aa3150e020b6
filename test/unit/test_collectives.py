"""Collective programs: standard algorithms, MSCCL XML, and the verification of programs."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budgets import draw_examples
from support.collective_xml import GATHER, NINE

from hespas.simulators.collectives import msccl_xml, standard_algorithms, trace_lowering
from hespas.simulators.collectives.collective_program import (
    KINDS,
    ChunkRef,
    CollectiveProgram,
    CollectiveStep,
)
from hespas.simulators.collectives.program_verifier import verify_program
from hespas.simulators.collectives.standard_algorithms import CollectiveBuilder
from hespas.support.errors import HespasError

FREE = trace_lowering.LocalWorkCosts(0)
PAIRS = [(name, kind) for name, kinds in standard_algorithms.ALGORITHMS.items() for kind in kinds]


@st.composite
def programs(draw, most=12) -> CollectiveProgram:
    """Draw a standard algorithm with a number of ranks that it supports."""
    name, kind = draw(st.sampled_from(PAIRS))
    local = 0
    if name == "recursive":
        ranks = draw(st.sampled_from([2, 4, 8]))
    elif name == "hierarchical":
        local = draw(st.integers(2, most // 2))
        ranks = local * draw(st.integers(2, most // local))
    else:
        ranks = draw(st.integers(2, most))
    return standard_algorithms.generate_program(name, kind, ranks, local)


def parse(text: str) -> CollectiveProgram:
    return msccl_xml.parse_program(text.encode(), "x.xml")


@given(programs())
@draw_examples(60)
def test_standard_algorithms_are_proved_and_survive_xml(program):
    verify_program(program)
    reparsed = parse(msccl_xml.format_program(program))
    verify_program(reparsed)
    assert (reparsed.collective, reparsed.parts, reparsed.in_place) == (
        program.collective, program.parts, program.in_place,
    )  # fmt: skip
    assert trace_lowering.lower_to_nodes(reparsed, 999, FREE) == [
        [dataclasses.replace(node, name=again_.name) for node, again_ in zip(a, b, strict=True)]
        for a, b in zip(
            trace_lowering.lower_to_nodes(program, 999, FREE),
            trace_lowering.lower_to_nodes(reparsed, 999, FREE),
            strict=True,
        )
    ]


@given(programs(most=6), st.randoms(use_true_random=False))
@draw_examples(80)
def test_a_program_that_lacks_a_step_is_refused(program, random):
    steps = [(rank, block, k) for rank, block, k, _ in program.iterate_steps()]
    rank, block, k = random.choice(steps)
    broken = dataclasses.replace(block, steps=(*block.steps[:k], *block.steps[k + 1 :]))
    with pytest.raises(HespasError):
        verify_program(_with(program, rank, block.id, broken))


@given(programs(most=6), st.randoms(use_true_random=False))
@draw_examples(80)
def test_a_program_that_moves_another_chunk_is_refused(program, random):
    sends = [s for s in program.iterate_steps() if s[3].kind == "s"]
    rank, block, k, step = random.choice(sends)
    moved = dataclasses.replace(step, source=ChunkRef(step.source.buffer, step.source.offset ^ 1))
    broken = dataclasses.replace(block, steps=(*block.steps[:k], moved, *block.steps[k + 1 :]))
    with pytest.raises(HespasError):
        verify_program(_with(program, rank, block.id, broken))


def _with(program: CollectiveProgram, rank: int, number: int, block) -> CollectiveProgram:
    old = program.ranks[rank]
    blocks = tuple(block if b.id == number else b for b in old.blocks)
    ranks = list(program.ranks)
    ranks[rank] = dataclasses.replace(old, blocks=blocks)
    return dataclasses.replace(program, ranks=tuple(ranks))


@pytest.mark.parametrize(
    ("name", "kind", "messages", "chunks"),
    [
        ("ring", "all_reduce", 14, 14),
        ("ring", "all_gather", 7, 7),
        ("recursive", "all_reduce", 6, 14),
        ("recursive", "reduce_scatter", 3, 7),
        ("direct", "all_reduce", 14, 14),
        ("direct", "all_to_all", 7, 7),
        ("hierarchical", "all_reduce", 8, 14),
        ("hierarchical", "all_to_all", 4, 10),
    ],
)
def test_what_each_rank_sends(name, kind, messages, chunks):
    program = standard_algorithms.generate_program(
        name, kind, 8, 4 if name == "hierarchical" else 0
    )
    for nodes in trace_lowering.lower_to_nodes(program, 800, FREE):
        sent = [node for node in nodes if node.type == trace_lowering.NodeType.COMM_SEND_NODE]
        assert len(sent) == messages
        assert sum(node.count for node in sent) == chunks
        unit = 800 if kind == "all_gather" else 100
        assert sum(node.size_bytes for node in sent) == chunks * unit


@pytest.mark.long
@pytest.mark.slow
def test_a_large_one_is_proved_in_seconds():
    verify_program(standard_algorithms.generate_program("ring", "all_reduce", 128))
    verify_program(standard_algorithms.generate_program("hierarchical", "all_to_all", 128, 8))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("ring", "all_to_all", 4), "has no all_to_all; use direct or hierarchical"),
        (("recursive", "all_reduce", 6), "power of two of ranks, not 6"),
        (("ring", "all_reduce", 1), "two ranks or more, not 1"),
        (("hierarchical", "all_reduce", 8), "number of ranks in a host"),
        (("hierarchical", "all_reduce", 8, 3), "two hosts or more of 3 ranks"),
        (("hierarchical", "all_reduce", 8, 8), "two hosts or more of 8 ranks"),
        (("ring", "all_reduce", 8, 4), "has one level"),
    ],
)
def test_what_an_algorithm_cannot_do(arguments, text):
    with pytest.raises(HespasError, match=text):
        standard_algorithms.generate_program(*arguments)


def test_all_nine_step_types():
    program = parse(NINE)
    assert {step.kind for *_, step in program.iterate_steps()} == set(KINDS)
    verify_program(program)
    first = trace_lowering.lower_to_nodes(
        program, 2_000_000, trace_lowering.LocalWorkCosts(1000, copies=True)
    )[0]
    assert [(node.name, node.deps, node.duration_us) for node in first] == [
        ("tb0.0 s", (), 0),
        ("tb0.1 rcs", (0,), 0),
        ("tb0.1 rcs", (1,), 0),
        ("tb1.0 rrc", (), 0),
        ("tb1.0 rrc", (3,), 3),
        ("tb2.0 r", (), 0),
        ("tb3.1 re", (4, 5), 3),  # the dependency of the nop is inherited
        ("tb4.0 s", (6,), 0),
        ("tb5.0 s", (6,), 0),
    ]
    assert [(node.peer, node.tag) for node in first[:3]] == [(1, 0), (2, 0), (1, 0)]
    third = trace_lowering.lower_to_nodes(
        program, 2_000_000, trace_lowering.LocalWorkCosts(1000, copies=True)
    )[2]
    assert ("tb1.0 cpy", 2) in [(node.name, node.duration_us) for node in third]


def test_several_chunks_in_a_message():
    program = parse(GATHER)
    verify_program(program)
    nodes = trace_lowering.lower_to_nodes(program, 3001, FREE)[1]
    sent = nodes[0]
    assert (sent.size_bytes, sent.count, sent.index) == (3002, 2, 2)
    assert len(nodes) == 2  # a copy takes no time unless it is charged


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('type="rrs"', 'type="rr"', r"x.xml:\d+: error: there is no step type 'rr'"),
        (
            's="1" type="re"',
            's="2" type="re"',
            r":17: error: step 2 comes where step 1 is expected",
        ),
        ('<tb id="3" send="-1"', '<tb send="-1"', r":15: error: <tb> has no attribute 'id'"),
        ('cnt="1"', 'cnt="one"', r"<step cnt=\"one\"> is not a whole number"),
        ('ngpus="3"', 'ngpus="4"', "the GPUs are 0, 1, 2, but ngpus=4 means 0 to 3"),
        ('<gpu id="1"', '<gpu id="0"', "GPU 0 is defined twice"),
        ('depid="2" deps="0"', 'depid="9" deps="0"', "step 0 of threadblock 9, which does not"),
        ('depid="2" deps="0"', 'depid="2" deps="0,1"', "are not lists of equal length"),
        ('srcbuf="s" srcoff="0"', 'srcbuf="x" srcoff="0"', "there is no buffer 'x'"),
        ('srcbuf="i" srcoff="1"', 'srcbuf="i" srcoff="2"', r"i\[2:3\], past a buffer of 2 chunks"),
        ('<tb id="0" send="1"', '<tb id="0" send="0"', "threadblock 0: sends to itself"),
        ('<tb id="1" send="-1" recv="1"', '<tb id="1" send="-1" recv="-1"', "receives from no one"),
        ('send="1" recv="-1" chan="4"', 'send="1" recv="-1" chan="0"', "shares the connection"),
        ("</algo>", "", "is not XML: no element found"),
        ('<?xml version="1.0"?>', "<!DOCTYPE algo>", "has a DOCTYPE"),
        ('"1.0"?', '"1.0" encoding="none"?', "cannot be read: unknown encoding: none"),
        ('nchunksperloop="2"', 'nchunksperloop="9999999"', "are more than 1048576"),
        ("<algo name", "<algorithm name", "there is <algorithm> first, where <algo> is expected"),
    ],
)
def test_wrong_xml(old, new, text):
    assert old in NINE
    with pytest.raises(HespasError, match=text):
        parse(NINE.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        # without the wait, tb 4 of rank 0 may send its chunk before it is reduced
        ('cnt="1" depid="3" deps="1"', 'cnt="1" depid="-1" deps="-1"', "race for|ends with"),
        # a chunk reduced twice
        ('type="rcs"', 'type="rrcs"', "reduces a chunk in twice"),
        # two steps that wait for each other
        (
            'type="rrc" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1" cnt="1" depid="-1" deps="-1"',
            'type="rrc" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1" cnt="1" depid="3" deps="1"',
            "waits for .*, which never happens",
        ),
        ('recv="2" chan="3"', 'recv="2" chan="7"', "waits for a message from rank 2 on channel 7"),
        ('type="cpy"', 'type="nop"', r"reads s\[0\], which holds nothing yet"),
        ('coll="allreduce"', 'coll="alltoall"', "2 chunks do not divide among 3 ranks"),
    ],
)
def test_wrong_programs(old, new, text):
    assert old in NINE
    with pytest.raises(HespasError, match=text):
        verify_program(parse(NINE.replace(old, new, 1)))


def test_a_race_that_one_schedule_does_not_show():
    """The verifier finds that rank 0 may overwrite a chunk before it has sent it."""
    b = CollectiveBuilder("racy", "all_gather", 2, 2)
    b.add_transfer(0, ChunkRef("o", 0), 1, ChunkRef("o", 0))
    b.add_transfer(1, ChunkRef("o", 1), 0, ChunkRef("o", 1))
    good = b.build_program()
    verify_program(good)
    b.add_local_copy(0, ChunkRef("o", 1), ChunkRef("o", 1))
    block = b.build_program().ranks[0].blocks[-1]
    assert block.steps[0].depends  # the builder adds this dependency; without it:
    loose = dataclasses.replace(
        block, steps=(CollectiveStep("cpy", ChunkRef("o", 0), ChunkRef("o", 1)),)
    )
    with pytest.raises(HespasError, match="race for"):
        verify_program(_with(b.build_program(), 0, block.id, loose))


def test_messages_that_nobody_receives():
    with pytest.raises(HespasError, match=r"1 messages from rank 0 to rank 2 .* never received"):
        text = NINE.split('<gpu id="2"')
        last = text[1].rindex('<tb id="2"')
        end = text[1].index("</gpu>")
        verify_program(parse(text[0] + '<gpu id="2"' + text[1][:last] + text[1][end:]))


def test_reductions_in_whole_microseconds():
    program = standard_algorithms.generate_program("ring", "all_reduce", 4)

    def times(**how):
        nodes = trace_lowering.lower_to_nodes(
            program, 1 << 20, trace_lowering.LocalWorkCosts(50, **how)
        )[0]
        return [n.duration_us for n in nodes if n.type == trace_lowering.NodeType.COMP_NODE]

    assert trace_lowering.LocalWorkCosts(50).compute_time_ns(1 << 18, 3) == 15726
    assert times() == [16, 15, 16]  # 15.726, 31.452, 47.178
    assert times(rounding="down") == [15, 15, 15]
