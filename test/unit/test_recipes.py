"""The recipes as programs: sizes, collectives by formula, work, traces, options."""

from __future__ import annotations

import importlib
import json
import math
from collections import Counter

import jax
import pytest
from support.budgets import thin_out

from hespas import frontends, passes
from hespas.dialects.mlir import collect_functions, get_attribute, ir
from hespas.estimators.work import compute_op_work
from hespas.frontends.export.exportable_lowering import lower_exportable
from hespas.frontends.export.program_source import RECIPES
from hespas.frontends.export.recipe_options import bind_option_texts, collect_options
from hespas.frontends.model_operations import count_model_flops
from hespas.passes.base import PassRun
from hespas.recipes import (
    decode,
    gemm,
    gpt,
    llama,
    moe,
    pipeline,
    prefill,
    resnet,
)
from hespas.support.errors import UsageError
from support import recipe_runs  # noqa: F401  eight CPU devices, before a backend starts

pytestmark = pytest.mark.slow

BUILDS = {name: importlib.import_module(place.split(":")[0]) for name, place in RECIPES.items()}
COLLECTIVES = ("all_gather", "all_reduce", "reduce_scatter", "all_to_all", "collective_permute")
MATRIX = ("stablehlo.dot_general", "stablehlo.convolution")
LAYERS, WEIGHTS = 2, 7  # of the model "tiny"; matrices of a layer
TINY = {"model": "tiny", "sequence": 32}


def prepared(program, platform="cpu"):
    """The program of one device."""
    module = frontends.from_jax(lower_exportable(program, platform))
    passes.run_pipeline(module, "prepare", PassRun(note=lambda _: None))
    return module


def census(module, names=COLLECTIVES):
    counts = Counter()

    def visit(op):
        name = op.name.removeprefix("stablehlo.")
        if name in names:
            counts[name] += 1
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return dict(counts)


# Sizes


@pytest.mark.parametrize(
    ("model", "count"),
    [
        # as MaxText counts these configurations
        ("100m", 190.7e6), ("200m", 341.5e6), ("500m", 813.3e6),
        ("1b", 1766.7e6), ("2b", 3173.8e6), ("3b", 4749.4e6),
        # as published
        ("8b", 8_030_261_248), ("70b", 70_553_706_496), ("llama2-7b", 6_738_415_616),
        ("mixtral-8x7b", 46_702_792_704),
    ],
)  # fmt: skip
def test_language_models_have_the_published_sizes(model, count):
    build = moe.build if model == "mixtral-8x7b" else llama.build
    facts = build(model=model, mesh={}).facts
    assert facts["parameters"] == pytest.approx(count, rel=3e-4 if count < 5e9 else 1e-12)


@pytest.mark.parametrize(
    ("depth", "count"),
    [  # torchvision's; 200: timm's
        (18, 11_689_512), (34, 21_797_672), (50, 25_557_032),
        (101, 44_549_160), (152, 60_192_808), (200, 64_673_832),
    ],
)  # fmt: skip
def test_resnets_have_the_published_sizes(depth, count):
    assert resnet.build(depth=depth).facts["parameters"] == count


def test_resnet50_has_the_published_work():
    """4.09e9 multiply-adds for an image, as torchvision says."""
    facts = resnet.build(depth=50, mode="inference", mesh={}, batch=1).facts
    assert facts["flops_per_step"] == pytest.approx(2 * 4.09e9, rel=1e-3)


# Collectives


def llama_collectives(mesh, remat="minimal", sequence_parallel=False):
    """What docs/reference/recipes.md says a step of llama has, layers one by one."""
    data, fsdp, context, tensor = (
        mesh.get(a, 1) > 1 for a in ("data", "fsdp", "context", "tensor")
    )
    matrices, norms, recomputes = WEIGHTS * LAYERS, 2 * LAYERS + 1, remat != "none"
    blocks, full = 2 * LAYERS + 1, remat == "full"
    counts = Counter()
    if fsdp:
        counts["all_gather"] += matrices * (2 if recomputes else 1) + 2
        counts["reduce_scatter"] += matrices + 2
    if data or context:
        counts["all_reduce"] += matrices + 2
    if data or fsdp or context:
        counts["all_reduce"] += norms + 1  # and the loss
    if context:
        counts["all_gather"] += 2 * LAYERS * (2 if full else 1)
        counts["reduce_scatter"] += 2 * LAYERS
    if tensor:
        counts["all_reduce"] += 3  # of the cross-entropy
        if sequence_parallel:
            counts["all_gather"] += 2 * blocks + (2 * LAYERS if remat in ("minimal", "full") else 0)
            counts["reduce_scatter"] += 2 * blocks + (LAYERS if full else 0)
            counts["all_reduce"] += norms
        else:
            counts["all_reduce"] += 2 * blocks + (LAYERS if full else 0)
    counts["all_reduce"] += fsdp or tensor  # the norm of the gradients
    return {name: count for name, count in counts.items() if count}


LLAMA_MESHES = (
    ({"fsdp": 4}, False),
    ({"data": 4}, False),
    ({"tensor": 2}, False),
    ({"tensor": 2}, True),
    ({"data": 2, "fsdp": 2, "context": 2}, False),
    ({"data": 2, "fsdp": 2, "context": 2, "tensor": 2}, False),
    ({"fsdp": 2, "context": 2, "tensor": 2}, True),
)
LLAMA_GRID = [
    (*mesh, remat) for mesh in LLAMA_MESHES for remat in ("none", "weights", "minimal", "full")
]


@pytest.mark.parametrize(
    ("mesh", "sequence_parallel", "remat"),
    thin_out(LLAMA_GRID, 3),
    ids=lambda value: "-".join(value) if isinstance(value, dict) else str(value),
)
def test_llama_has_the_collectives_of_the_formula(mesh, sequence_parallel, remat):
    options = {"remat": remat, "sequence_parallel": sequence_parallel}
    program = llama.build(model="tiny", mesh=mesh, sequence=32, **options)
    assert census(prepared(program)) == llama_collectives(mesh, **options)


def test_llama_by_the_partitioner_gathers_alike():
    """Weights as often; their gradients are summed whole, for XLA to scatter later."""
    program = llama.build(model="tiny", mesh={"fsdp": 4}, sequence=32, partitioning="auto")
    counts = census(prepared(program))
    assert counts["all_gather"] == llama_collectives({"fsdp": 4})["all_gather"]
    assert counts["all_reduce"] >= WEIGHTS * LAYERS + 2
    assert set(counts) == {"all_gather", "all_reduce"}


@pytest.mark.parametrize(
    ("remat", "again"),
    thin_out([
        ("none", 0),
        ("weights", 0),
        ("eager", 1),
        ("minimal_flash", 1),  # the scores
        ("minimal", 2),  # and the mixed values
        ("save_dot_with_context_except_mlp", 3),  # scores, gate, up
        ("save_dot_except_mlpwi", 4),
        ("save_dot_except_mlp", 4),
        ("save_qkv_proj", 5),  # and the output projection
        ("save_out_proj", 7),
        ("full", 8),  # all but the last product
    ], 2),
)  # fmt: skip
def test_remat_computes_products_again(remat, again):
    """One layer has 9 products, each with two in its gradient; the logits have 3 more."""
    program = llama.build(model="tiny", mesh={"fsdp": 2}, sequence=32, remat=remat)
    assert census(prepared(program), ("dot_general",)) == {"dot_general": LAYERS * (27 + again) + 3}


@pytest.mark.parametrize(
    ("remat", "forward"),
    [("minimal_flash", 1), ("eager_weights", 1), ("minimal", 2), ("full", 2)],
)
def test_fused_attention_replaces_products(remat, forward):
    """A policy that keeps the output of attention keeps all that the kernel returns."""
    program = llama.build(
        model="tiny", mesh={"fsdp": 2}, sequence=32, remat=remat, attention="cudnn"
    )
    text = str(prepared(program, "cuda"))
    assert text.count("@__cudnn$fmhaSoftmax(") == forward * LAYERS
    assert text.count("@__cudnn$fmhaSoftmaxBackward(") == LAYERS
    recomputed_products = LAYERS * (WEIGHTS - 1) if remat == "full" else 0
    assert text.count("stablehlo.dot_general") == 3 * LAYERS * WEIGHTS + recomputed_products + 3


@pytest.mark.parametrize("reduce_dtype", [None, "f32"])
@pytest.mark.parametrize(("remat", "gathers"), [("eager", 1), ("eager_weights", 2)])
def test_eager_policies_keep_or_gather_weights(remat, gathers, reduce_dtype):
    """Whatever the type is in which gradients are summed."""
    options = {} if reduce_dtype is None else {"reduce_dtype": reduce_dtype}
    program = llama.build(model="tiny", mesh={"fsdp": 2}, sequence=32, remat=remat, **options)
    counts = census(prepared(program), ("all_gather",))
    assert counts["all_gather"] == gathers * LAYERS * WEIGHTS + 2


@pytest.mark.parametrize("cache", ["contiguous", "paged"])
def test_fused_decoding_reads_the_cache_once(cache):
    """With cuDNN's kernel, which reads pages where they lie, attention moves no more than that."""
    program = decode.build(
        model="tiny", mesh={}, context=4096, batch=4, cache=cache, attention="cudnn"
    )
    module = frontends.from_jax(lower_exportable(program, "cuda"))
    readers = []

    def visit(op):
        if op.name == "stablehlo.custom_call" and "fmha" in str(op.attributes["call_target_name"]):
            readers.append(compute_op_work(op))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    cache_bytes = program.facts["cache_bytes"]
    assert len(readers) == LAYERS
    assert cache_bytes <= sum(work.read_bytes for work in readers) < 1.01 * cache_bytes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "tiny-deepseek"}, "latent attention"),
        ({"model": "tiny-moe", "weights": "fp8"}, "without experts"),
        ({"cache_dtype": "fp8", "attention": "cudnn"}, "8 bits"),
        ({"cache": "paged", "partitioning": "auto"}, "explicit collectives"),
        ({"cache": "paged", "page": 24}, "pages of 24"),
    ],
    ids=lambda value: "" if isinstance(value, str) else "-".join(value),
)
def test_what_decoding_refuses(options, message):
    with pytest.raises(UsageError, match=message):
        decode.build(**{"model": "tiny", "mesh": {}, "context": 64, **options})


def test_100m_gathers_and_scatters_as_maxtext_does():
    """The published llama3-100m: 100 all-gathers, 51 reduce-scatters once XLA has made them."""
    counts = census(
        frontends.from_jax(lower_exportable(llama.build(model="100m", mesh={"fsdp": 4})))
    )
    assert (counts["all_gather"], counts["reduce_scatter"]) == (100, 51)


@pytest.mark.parametrize(
    ("build", "options", "expected"),
    [
        # embedding, two for each layer, and two to choose the token
        (decode.build, {"model": "tiny", "mesh": {"tensor": 2}}, {"all_reduce": 7}),
        (prefill.build, {"model": "tiny", "mesh": {"tensor": 2}}, {"all_reduce": 7}),
        # to the experts and back in each layer, and in its gradient
        (
            moe.build,
            {"model": "tiny-moe", "mesh": {"expert": 4}, "sequence": 16},
            # gradients but the experts', loss, norm of the gradients, balance in each layer
            {"all_to_all": 4 * LAYERS, "all_reduce": 3 + 7 * LAYERS + 1 + 1 + LAYERS},
        ),
        (gemm.build, {"kind": "ring"}, {"collective_permute": 7}),
        (gemm.build, {"kind": "summa", "mesh": {"x": 2, "y": 2}, "panels": 4}, {"all_gather": 8}),
        (resnet.build, {"batch": 2, "image": 32, "mode": "inference"}, {}),
        # gradients, batch norms forward and backward, loss
        (
            resnet.build,
            {"depth": 18, "batch": 2, "image": 32},
            {"all_reduce": (3 * 20 + 2) + 2 * 20 + 1},
        ),
    ],
    ids=["decode", "prefill", "moe", "ring", "summa", "resnet-inference", "resnet-train"],
)
def test_collectives_of_the_others(build, options, expected):
    assert census(frontends.from_jax(lower_exportable(build(**options)))) == expected


def test_pipeline_passes_on_in_each_step_of_its_loops():
    program = pipeline.build(
        model="tiny", mesh={"stage": 2}, microbatches=4, sequence=16, remat="none"
    )
    module = prepared(program)
    loops = []

    def visit(op):
        if op.name == "stablehlo.while":
            op_names = [o.operation.name for o in op.regions[1].blocks[0].operations]
            loops.append((op_names.count("stablehlo.collective_permute"), trips(op)))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    assert loops == [(1, 5), (1, 5)]  # microbatches + stages - 1, forward and backward


def trips(loop):
    return int(get_attribute(loop, "hespas.trips").value)


@pytest.mark.parametrize(
    ("build", "options", "donated"),
    [
        (decode.build, {"model": "tiny", "mesh": {"tensor": 2}, "context": 32}, 2 * LAYERS),
        (llama.build, {"model": "tiny", "mesh": {"fsdp": 2}, "sequence": 32}, 3 * 21 + 1),
    ],
    ids=["cache", "state"],
)
def test_what_a_step_changes_is_donated(build, options, donated):
    """The cache; parameters, moments and the count of steps (3 + 9 L arrays each)."""
    text = str(frontends.from_jax(lower_exportable(build(**options))))
    assert text.count("tf.aliasing_output") + text.count("jax.buffer_donor") == donated


# Work


def flops(op):
    """FLOPs of a product or a convolution, products with padding included."""
    if op.name == "stablehlo.convolution":
        kernel = op.operands[1].type.shape
        return 2 * math.prod(op.results[0].type.shape) * math.prod(kernel[:-1])
    return compute_op_work(op).flops


def matrix_flops(module):
    """FLOPs of the products and convolutions of the program, functions once for each call."""
    known = collect_functions(module)

    def of(function):
        total = 0

        def visit(op):
            nonlocal total
            if op.name in MATRIX:
                total += flops(op)
            elif op.name == "func.call":
                total += of(known[get_attribute(op, "callee").value])
            return ir.WalkResult.ADVANCE

        function.walk(visit)
        return total

    return of(known["main"])


@pytest.mark.parametrize(
    ("build", "options", "tolerance"),
    [
        (llama.build, {**TINY, "mesh": {"fsdp": 2, "tensor": 2}, "remat": "none"}, 0),
        (gpt.build, {**TINY, "model": "tiny-gpt", "mesh": {"data": 4}, "remat": "none"}, 0),
        (
            llama.build,
            {**TINY, "mesh": {"fsdp": 2, "tensor": 2}, "remat": "none", "partitioning": "auto"},
            0,
        ),
        (
            decode.build,
            {"model": "tiny", "mesh": {"data": 2, "tensor": 2}, "context": 32},
            0,
        ),
        (prefill.build, {**TINY, "mesh": {"data": 2, "tensor": 2}}, 0),
        (gemm.build, {"kind": "all-reduce", "mesh": {"x": 4}, "m": 64, "n": 64, "k": 64}, 0),
        # even load leaves the weighting of the experts' outputs, which is not in the formula
        (
            moe.build,
            {**TINY, "model": "tiny-moe", "mesh": {"expert": 4}, "remat": "none", "capacity": 1.0},
            0.01,
        ),
        # the product of the bias of relative positions and its gradient are not counted
        (
            BUILDS["t5"].build,
            {"model": "tiny-t5", "mesh": {"data": 4}, "sequence": 32, "targets": 16},
            0.03,
        ),
        (BUILDS["bert"].build, {"model": "tiny-bert", "mesh": {"data": 4}, "remat": "none"}, 0),
        (resnet.build, {"depth": 18, "mesh": {"data": 4}, "mode": "inference"}, 0),
        (resnet.build, {"depth": 50, "mesh": {"data": 4}, "image": 65, "mode": "inference"}, 0),
    ],
    ids=[
        "llama",
        "gpt",
        "llama-auto",
        "decode",
        "prefill",
        "gemm",
        "moe",
        "t5",
        "bert",
        "resnet18",
        "resnet50",
    ],
)
def test_flops_are_those_of_the_ops(build, options, tolerance):
    program = build(**options)
    flops = 4 * matrix_flops(prepared(program))
    assert flops == pytest.approx(program.facts["flops_per_step"], rel=tolerance)


# Through the passes

SMALL = {
    "gemm": {"mesh": {"x": 4}, "m": 64, "n": 64, "k": 64},
    "bert": {"model": "tiny-bert", "mesh": {"fsdp": 2, "tensor": 2}, "sequence": 32},
    "decode": {"model": "tiny", "mesh": {"data": 2, "tensor": 2}, "context": 32},
    "gemma": {"model": "tiny-gemma", "mesh": {"fsdp": 2, "tensor": 2}, "sequence": 32},
    "gpt": {"model": "tiny-gpt", "mesh": {"fsdp": 2, "tensor": 2}, "sequence": 32},
    "llama": {"model": "tiny", "mesh": {"fsdp": 2, "tensor": 2}, "sequence": 32},
    "moe": {"model": "tiny-moe", "mesh": {"expert": 4}, "sequence": 32},
    "pipeline": {"model": "tiny", "mesh": {"stage": 2, "data": 2}, "sequence": 32},
    "prefill": {"model": "tiny", "mesh": {"data": 2, "tensor": 2}, "sequence": 32},
    "resnet": {"depth": 18, "mesh": {"data": 4}, "image": 32, "batch": 2},
    "t5": {"model": "tiny-t5", "mesh": {"fsdp": 2, "tensor": 2}, "sequence": 32, "targets": 16},
}
TESTED_ALONE = {"maxtext", "stage"}  # by test_maxtext and test_recipe_stages


def test_every_recipe_is_tested():
    assert {*SMALL, *TESTED_ALONE} == set(RECIPES)


EXTRA = {"scan": {"scan": True}, "auto": {"partitioning": "auto"}}
CASES = [
    (name, extra)
    for extra in EXTRA.values()
    for name in SMALL
    if set(extra) <= {option.name for option in collect_options(BUILDS[name].build)}
]


@pytest.mark.parametrize(
    ("name", "extra"),
    [*((name, {}) for name in SMALL), *thin_out(CASES, 3)],
    ids=lambda v: v if isinstance(v, str) else "-".join(v),
)
def test_traces_come_of_it(name, extra, tmp_path):
    program = BUILDS[name].build(**SMALL[name], **extra)
    module = frontends.from_jax(lower_exportable(program))
    # Much of the padding of small images is not computed; heads and slots are 2 to 17 per cent.
    share = 0.57 if name == "resnet" else 1.0
    counted = count_model_flops(module)
    assert counted == pytest.approx(share * program.facts["flops_per_step"], rel=0.2)
    run, folder = PassRun(note=lambda _: None), tmp_path / "traces"
    steps = "split-linear,roofline-annotate{node=H100_80GB},emit-chakra{output=" + str(folder) + "}"
    passes.run_pipeline(module, steps, run)
    assert run.warnings == []
    assert len(list(folder.glob("*.et"))) == 4
    assert json.loads((folder / "module_stats.json").read_text())


# Options


def test_every_recipe_has_a_summary_and_every_option_a_help():
    for name, module in BUILDS.items():
        summary = module.build.__doc__.split("\n")[0]
        assert summary.endswith("."), name
        assert all(option.help for option in collect_options(module.build)), name
        if name in SMALL:
            assert all(array.size for array in jax.tree.leaves(module.build().args))


@pytest.mark.parametrize(
    ("name", "options", "mesh", "message"),
    [
        ("llama", {}, {"fspd": 2}, "the recipe has no mesh axis 'fspd'; did you mean 'fsdp'?"),
        ("llama", {"model": "100m"}, {"tensor": 2}, "9 over tensor=2"),
        ("llama", {"sequence": "30"}, {"context": 4}, "a sequence of 30 is not divisible by 4"),
        ("llama", {"layers": "0"}, None, "option 'layers' is 0"),
        ("llama", {"kv_heads": "5"}, None, "32 heads cannot share 5 kv_heads"),
        ("llama", {"head_dim": "5"}, None, "needs an even number"),
        ("llama", {"clip": "-1"}, None, "option 'clip' is -1"),
        ("llama", {"clip": "nan"}, None, "option 'clip' is nan"),
        ("llama", {"vocab_tiles": "0"}, None, "option 'vocab_tiles' is 0"),
        ("gpt", {"vocab_tiles": "2", "partitioning": "auto"}, None, "needs explicit collectives"),
        ("bert", {"vocab_tiles": "2"}, None, "recipe bert has no option 'vocab_tiles'"),
        ("bert", {"separate_loss": "true"}, None, "recipe bert has no option 'separate_loss'"),
        ("moe", {"top_k": "9"}, None, "top_k is 9, of 8 experts"),
        ("moe", {"capacity": "0"}, None, "'capacity'"),
        ("moe", {"dispatch": "dropless"}, {"expert": 2}, "dispatch 'dropless' needs all experts"),
        ("moe", {"dispatch": "in_turn", "top_k": "3"}, None, "cannot take turns at 8 experts"),
        ("moe", {"dense_layers": "32"}, None, "dense_layers is 32, of 32 layers"),
        ("gpt", {"window": "-1"}, None, "option 'window' is -1; use 0 or more"),
        ("gpt", {"positions": "rotary", "head_dim": "5"}, None, "needs an even number"),
        ("moe", {"capacity": "nan"}, None, "option 'capacity' is nan"),
        ("pipeline", {"model": "100m"}, {"stage": 2}, "7 layers are not divisible by 2 stages"),
        ("gemm", {"m": "12"}, {"x": 8}, "12 over x=8"),
        ("gemm", {}, {"y": 8}, "the recipe has no mesh axis 'y'"),
        ("gemm", {"kind": "summa", "panels": "2"}, {"x": 4, "y": 2}, "square grid"),
        ("resnet", {"batch": "0"}, None, "option 'batch' is 0"),
    ],
)
def test_what_does_not_fit_is_refused(name, options, mesh, message):
    build = BUILDS[name].build
    with pytest.raises(UsageError) as caught:
        build(**bind_option_texts(build, options, mesh, name))
    assert message in str(caught.value)


def test_an_expert_has_room_for_all_at_the_most():
    options = {"model": "tiny-moe", "mesh": {}, "sequence": 16}
    texts = [
        str(lower_exportable(moe.build(capacity=c, **options)).as_text()) for c in (8.0, math.inf)
    ]
    assert "tensor<8x16x64x" in texts[0] and texts[0] == texts[1]
