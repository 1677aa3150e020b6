"""``hespas.estimate`` on JAX functions, and what its result can tell."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

import hespas
from hespas import frontends
from hespas.configs import load_node
from hespas.dialects.program_facts import read_program_facts
from hespas.dialects.xla import find_gpu_library
from hespas.frontends.export import Exportable
from hespas.frontends.function_lowering import select_lowering_platform
from hespas.support.errors import UsageError

NODE, SYSTEM = "H100_80GB", "H100_80GB_4GPU"
DEFAULT_FORM = (
    "compiled by XLA for H100_80GB: scheduled, with asynchronous collectives"
    if find_gpu_library()
    else "fused by hespas"
)
MESH = AbstractMesh((4,), ("data",), (AxisType.Auto,))


def array(*shape: int, spec: PartitionSpec | None = None) -> jax.ShapeDtypeStruct:
    sharding = None if spec is None else NamedSharding(MESH, spec)
    return jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=sharding)


def layer(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w)


def sum_shards(x: Any, w: Any) -> Any:
    """A layer whose result is summed over the devices of the mesh; no partitioner is needed."""
    return jax.shard_map(
        lambda x, w: jax.lax.psum(layer(x, w), "data"),
        mesh=MESH,
        in_specs=(PartitionSpec("data"), PartitionSpec()),
        out_specs=PartitionSpec(),
    )(x, w)


def get_model_flops(result: hespas.ProgramEstimate) -> float | None:
    return result.summary.figures["derived"]["model_flops"]


@pytest.fixture(scope="module")
def shards() -> tuple[jax.ShapeDtypeStruct, ...]:
    return array(4096, 1024, spec=PartitionSpec("data")), array(1024, 2048, spec=PartitionSpec())


@pytest.fixture(scope="module")
def step(shards: Any) -> hespas.ProgramEstimate:
    return hespas.estimate(sum_shards, *shards, target=NODE, system=SYSTEM)


def test_plain_and_jitted_functions_and_lowered_programs_are_one_program():
    shapes = array(512, 256), array(256, 128)
    jitted = jax.jit(layer)
    exportable = Exportable("layer", layer, shapes)
    programs: list[tuple[Any, ...]] = [
        (layer, *shapes),
        (jitted, *shapes),
        (jitted, *(jnp.zeros(s.shape, s.dtype) for s in shapes)),
        (jitted.trace(*shapes),),
        (jitted.lower(*shapes),),
        (exportable,),
    ]
    for form, description in (("fuse", "fused by hespas"), (None, DEFAULT_FORM)):
        results = [hespas.estimate(*program, target=NODE, form=form) for program in programs]
        assert len({result.step_time_s for result in results}) == 1
        assert {get_model_flops(result) for result in results} == {2 * 512 * 256 * 128}
        assert {result.summary.form for result in results} == {description}
        assert {result.summary.program for result in results} == {"layer", "<Traced>", "<Lowered>"}
        # The activation is in the kernel of the product.
        assert len(results[0].breakdown.regions) == 1


def test_the_form_by_default_of_other_estimators_and_devices_is_fused():
    shapes = array(512, 256), array(256, 128)
    for options in ({"estimator": "roofline", "target": NODE}, {"target": "MI300X"}):
        result = hespas.estimate(layer, *shapes, **options)
        assert result.summary.form == "fused by hespas"


def test_a_sharded_function_needs_no_devices(step, shards):
    assert step.step_time_s is not None and step.step_time_s > step.compute_s
    assert step.target.devices == 4
    flops = 2 * 4096 * 1024 * 2048
    assert get_model_flops(step) == flops
    assert step.mfu == pytest.approx(flops / (4 * 989.4e12 * step.step_time_s))


def test_constraints_and_shardings_of_arguments_are_partitioned():
    def constrain(x: Any, w: Any) -> Any:
        return jax.lax.with_sharding_constraint(layer(x, w), PartitionSpec("data"))

    shapes = array(4096, 512), array(512, 512, spec=PartitionSpec("data"))
    result = hespas.estimate(jax.jit(constrain), *shapes, target=NODE, system=SYSTEM)
    assert result.target.devices == 4
    assert get_model_flops(result) == 2 * 4096 * 512 * 512
    assert result.summary.stats["totals"]["comm_ops"] == 1  # the weights are gathered


def test_donated_arguments_share_memory_with_results():
    def update(x: Any) -> Any:
        return x + 1

    peaks = [
        hespas.estimate(jax.jit(update, donate_argnums=numbers), array(1024, 1024), target=NODE)
        for numbers in ((), (0,))
    ]
    kept, donated = (result.memory.peak_bytes for result in peaks if result.memory)
    assert kept == 2 * donated


def test_options_of_python_are_bound_with_partial():
    def scale(x: Any, *, times: int) -> Any:
        return functools.reduce(lambda x, _: x @ x, range(times), x)

    result = hespas.estimate(functools.partial(scale, times=3), array(64, 64), target=NODE)
    assert get_model_flops(result) == 3 * 2 * 64**3


class FilteredStep:
    """As ``equinox.filter_jit`` wraps a function: arrays are traced, the rest is constant."""

    donate_first, donate_rest = True, False

    def __call__(self, model: Any, x: Any) -> Any:
        return {**model, "w": model["w"] + 1}, model["activation"](x @ model["w"])


def test_what_is_no_array_is_a_constant_of_a_plain_function():
    """Models of Equinox hold functions among their arrays, and results may."""
    shapes = array(512, 256), array(256, 128)
    model = {"w": shapes[1], "activation": jax.nn.relu, "name": "mlp"}
    step = hespas.estimate(FilteredStep(), model, shapes[0], target=NODE, form="fuse")
    kept = hespas.estimate(FilteredStep().__call__, model, shapes[0], target=NODE, form="fuse")
    assert get_model_flops(step) == 2 * 512 * 256 * 128
    assert step.memory and kept.memory and step.memory.peak_bytes < kept.memory.peak_bytes
    assert "model['w']" in step.module.operation.get_asm(enable_debug_info=True)


class FilteredLayer:
    """A function of ``equinox.filter_jit`` that branches on a Python number of its model."""

    donate_first = donate_rest = False

    def __call__(self, model: Any, x: Any) -> Any:
        y = x @ model["w"]
        return y if model["inference"] else jax.nn.tanh(y) * model["scale"], model["inference"]


@pytest.mark.parametrize("inference", [False, True])
def test_numbers_of_python_are_constants_of_filter_jit(inference):
    """As in Equinox, whose BatchNorm and Dropout branch on them; ``jax.jit`` traces them."""
    model = {"w": array(256, 128), "inference": inference, "scale": 0.5}
    result = hespas.estimate(FilteredLayer(), model, array(512, 256), target=NODE, form="fuse")
    assert get_model_flops(result) == 2 * 512 * 256 * 128
    assert ("stablehlo.tanh" in str(result.module)) != inference


def test_exported_and_compiled_programs():
    shapes = array(512, 256), array(256, 128)
    exported = jax.export.export(jax.jit(layer), platforms=["cuda"])(*shapes)
    times = {
        hespas.estimate(program, target=NODE, form="fuse").step_time_s
        for program in (exported, jax.jit(layer).lower(*shapes))
    }
    assert len(times) == 1
    compiled = jax.jit(layer).lower(*shapes).compile()
    result = hespas.estimate(compiled, target=NODE)
    assert "optimised the program for CPUs" in " ".join(result.warnings)
    with pytest.raises(UsageError, match="a Compiled takes none"):
        hespas.estimate(compiled, *shapes, target=NODE)


def repeat_product(x: Any) -> Any:
    """One product on a GPU, three on a CPU, and two on other platforms."""
    return jax.lax.platform_dependent(
        x, cpu=lambda x: x @ x @ x @ x, cuda=lambda x: x @ x, default=lambda x: x @ x @ x
    )


@pytest.mark.parametrize(
    ("platforms", "products"),
    [(("tpu", "cpu", "cuda"), (1, 2, 3)), (("cuda", "cpu"), (1, 3, 3)),
     (("tpu", "cuda"), (1, 2, 2)), (("cuda",), (1, 1, 1))],
)  # fmt: skip
def test_a_program_for_several_platforms_is_that_of_the_node(platforms, products):
    """Otherwise the heaviest of them would be estimated, whatever the node is."""
    function, x = jax.jit(repeat_product), array(256, 256)
    programs = (
        jax.export.export(function, platforms=platforms)(x),
        function.trace(x).lower(lowering_platforms=platforms),
    )
    for program in programs:
        for node, count in zip((NODE, "TPUv5p", "Gaudi3"), products, strict=True):
            result = hespas.estimate(program, node=node, form="as-is")
            figures = result.summary.figures
            assert (figures["flops"], get_model_flops(result)) == (count * 2 * 256**3,) * 2
            assert result.memory and result.memory.argument_bytes == 2 * 256**2
            facts = read_program_facts(result.module)
            own = select_lowering_platform(load_node(node).vendor)
            assert "exported_for" not in facts
            assert (facts["lowered_for"] == own) == (own in platforms)


@pytest.mark.parametrize(("dims", "rows"), [("b=64", 64), ("arg0=64x32", 64), ("", 128)])
def test_a_program_for_several_platforms_may_have_symbolic_dimensions(dims, rows):
    """The number of the platform is no argument of the user's; assumed sizes count as stated."""
    x = jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, 32"), jnp.bfloat16)
    exported = jax.export.export(jax.jit(lambda x: x @ x.T), platforms=("cpu", "cuda"))(x)
    result = hespas.estimate(exported, node=NODE, form="as-is", dims=dims)
    assert get_model_flops(result) == result.summary.figures["flops"] == 2 * rows * 32 * rows
    assert sum("sizes assumed" in warning for warning in result.warnings) == (not dims)


def test_the_platforms_of_a_serialised_program():
    """A sweep reads the file once, and makes a program for each platform of its nodes."""
    place = Path(__file__).parents[1] / "data" / "jax_export_platforms.bin"
    nodes = [NODE, "TPUv5p", "Gaudi3", "A100_SXM_40GB"]
    sweep = {"mlir": str(place), "node": nodes, "form": "as-is", "estimator": "roofline"}
    outcome = hespas.sweep(sweep, cache="none")
    flops = {row["node"]: row["flops"] / (2 * 64**3) for row in outcome.rows}
    assert [flops[node] for node in nodes] == [1, 2, 3, 1]
    assert {row["derived.model_flops"] / row["flops"] for row in outcome.rows} == {1}


def test_wrong_calls_are_told():
    x = array(8, 8)
    with pytest.raises(UsageError, match="no type of device is given"):
        hespas.estimate(layer, x, x)
    with pytest.raises(UsageError, match="'target' is H100_80GB, but 'node' is A100_SXM_40GB"):
        hespas.estimate(layer, x, x, target=NODE, node="A100_SXM_40GB")
    with pytest.raises(UsageError, match="a Lowered takes none"):
        hespas.estimate(jax.jit(layer).lower(x, x), x, target=NODE)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        hespas.estimate(layer, x, target=NODE)
    other = NamedSharding(AbstractMesh((2,), ("model",)), PartitionSpec("model"))
    elsewhere = jax.ShapeDtypeStruct((8, 8), jnp.bfloat16, sharding=other)
    with pytest.raises(hespas.HespasError, match=r"over different meshes: {'data': 4} and"):
        hespas.estimate(layer, array(8, 8, spec=PartitionSpec("data")), elsewhere, target=NODE)


def test_kernels_are_those_of_the_vendor():
    platforms = [select_lowering_platform(v) for v in ("NVIDIA", "AMD", "Google", "example")]
    assert platforms == ["cuda", "rocm", "tpu", "cpu"]


@pytest.mark.parametrize("by", ["kernel", "op", "line", "layer"])
def test_the_ranking_adds_up_to_the_compute_time(step, by):
    ranking = step.top(100, by)
    assert sum(row.time_s for row in ranking) == pytest.approx(step.compute_s)
    assert sum(row.share for row in ranking) == pytest.approx(1)
    assert [row.time_s for row in ranking] == sorted((r.time_s for r in ranking), reverse=True)
    assert ranking.by in str(ranking) and repr(ranking) == str(ranking)


def test_the_ranking_names_kernels_and_lines(step):
    assert "gemm" in step.top(1, "op").rows[0].name
    (row,) = step.top(1, "line")
    file, _, line = row.name.rpartition(":")
    assert file == __file__ and line.isdecimal()
    shown = str(step.top(100))
    assert Path(__file__).name in shown and str(Path(__file__).parent) not in shown
    short = step.top(0)
    assert not len(short) and short.omitted == len(step.top(100))
    with pytest.raises(UsageError, match="no ranking by 'lines'") as raised:
        step.top(by="lines")
    assert "line" in raised.value.remedy


def test_the_result_prints_as_tables_and_as_a_page(step):
    text = str(step)
    assert repr(step) == text
    assert "of the model, counted in the lowered program" in text and "step time" in text
    page = step._repr_html_()
    assert page.startswith('<div class="hespas">') and page.endswith("</div>")
    assert "sum_shards on 4 x H100_80GB" in page and "MFU" in page
    assert "<script" not in page and "http" not in page.replace("https://ui.perfetto.dev", "")
    assert page.count("<table>") == page.count("</table>") > 4


def test_text_in_pages_is_escaped():
    def less(x: Any) -> Any:
        return x @ x

    less.__name__ = "<b>"
    page = hespas.estimate(less, array(8, 8), target=NODE)._repr_html_()
    assert "&lt;b&gt; on 1 x" in page and "<b>&" in page


def test_a_timeline_shows_every_node(step, tmp_path):
    path = tmp_path / "step.perfetto-trace"
    drawn = step.timeline(path)
    assert path.stat().st_size == drawn.size_bytes
    assert drawn.devices == (0, 1, 2, 3) and drawn.slices >= 4 * 2
    assert [*tmp_path.iterdir()] == [path]


def test_a_timeline_needs_a_network(tmp_path):
    result = hespas.estimate(layer, array(8, 8), array(8, 8), target=NODE)
    with pytest.raises(UsageError, match="no system is given"):
        result.timeline(tmp_path / "step.perfetto-trace")


def test_estimates_are_compared_by_kernel_and_layer(step, shards):
    f32 = [jax.ShapeDtypeStruct(s.shape, jnp.float32, sharding=s.sharding) for s in shards]
    wider = hespas.estimate(sum_shards, *f32, target=NODE, system=SYSTEM)
    difference = step.compare(wider)
    assert difference.totals["step_time_s"] == (step.step_time_s, wider.step_time_s)
    assert difference.relative_growth > 0 and difference.kernels and difference.collectives
    assert "By layer" in str(difference) and "<table>" in difference._repr_html_()
    same = step.compare(step)
    assert same.relative_growth == 0 and all(change.is_equal for change in same.kernels)


def test_sharded_attention_of_cudnn_has_an_mfu():
    """Its partitioning rule is a function of this process, so that XLA partitions it here.

    Each of the two products of forward has 2 B H S S D operations, of which a causal mask leaves
    about a half; MFU counts the mask as the kernel does.
    """
    mesh = AbstractMesh((4, 2), ("data", "tensor"), axis_types=(AxisType.Auto,) * 2)
    batch, length, heads, width = 8, 512, 4, 64
    sharding = NamedSharding(mesh, PartitionSpec("data", None, "tensor"))
    q = jax.ShapeDtypeStruct((batch, length, heads, width), "bfloat16", sharding=sharding)

    def attend(q, k, v):
        return jax.nn.dot_product_attention(q, k, v, implementation="cudnn")

    def step(q, k, v):
        return jax.grad(lambda *args: attend(*args).astype("float32").sum(), (0, 1, 2))(q, k, v)

    forward = 2 * 2 * batch * heads * length * length * width
    for function, flops in ((attend, forward), (step, 3 * forward)):
        result = hespas.estimate(jax.jit(function), q, q, q, node="H100_80GB", system="HGX_H100_8")
        seconds = result.step_time_s
        assert result.summary.target.devices == 8 and not result.warnings
        assert result.mfu == pytest.approx(flops / (8 * 989.4e12 * seconds), rel=1e-3)


def test_a_module_remembers_the_platform_that_it_was_lowered_for():
    """JAX lowers a ragged product for a CPU as the dense product of all groups."""
    shapes = array(512, 256), array(4, 256, 128), jax.ShapeDtypeStruct((4,), jnp.int32)

    def experts(x: Any, w: Any, sizes: Any) -> Any:
        return jnp.tanh(jax.lax.ragged_dot(x, w, sizes))

    for target, platform in ((NODE, "cuda"), ("TPUv5p", "tpu"), ("Gaudi3", "cpu")):
        for program in (experts, jax.jit(experts), Exportable("experts", experts, shapes)):
            args = () if isinstance(program, Exportable) else shapes
            result = hespas.estimate(program, *args, target=target, form="as-is")
            facts = read_program_facts(result.module)
            assert facts["lowered_for"] == platform
            assert facts["platform_ops"] == "ragged_dot_general"
            assert not [text for text in result.warnings if "lowered" in text]
    lowered = jax.jit(experts).trace(*shapes).lower(lowering_platforms=("cpu",))
    result = hespas.estimate(lowered, target="TPUv5p", form="as-is")
    assert any(
        text.startswith("the program was lowered for cpu, and the node is TPUv5p")
        for text in result.warnings
    )
    assert "lowered_for" not in read_program_facts(frontends.from_jax(lowered))
    plain = hespas.estimate(layer, *shapes[:1], array(256, 128), target=NODE, form="as-is")
    assert "platform_ops" not in read_program_facts(plain.module)


def test_random_numbers_that_were_lowered_for_a_cpu_are_a_loop():
    """Each of its rounds reads and writes memory, on any device."""

    def drop(x: Any) -> Any:
        return x * jax.random.bernoulli(jax.random.key(0), 0.9, x.shape)

    times = {}
    for platform in ("cpu", "cuda", "tpu"):
        lowered = jax.jit(drop).trace(array(512, 512)).lower(lowering_platforms=(platform,))
        for program in (lowered, lowered.as_text()):
            result = hespas.estimate(program, target=NODE, form="fuse")
            times[platform] = result.compute_s
            warnings = [text for text in result.warnings if "lowers threefry2x32" in text]
            assert len(warnings) == (platform == "cpu")
    assert times["cpu"] > 2 * times["cuda"] == 2 * times["tpu"]
