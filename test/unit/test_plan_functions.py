"""Plans of plain functions: logical axes, builders, and equal answers in three ways."""

from __future__ import annotations

import contextlib
import importlib
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import hespas as package
from hespas.dialects.xla import find_gpu_library
from hespas.frontends.export.export_spec import ExportSpec
from hespas.frontends.export.exportable import Exportable
from hespas.frontends.export.logical_axes import (
    LogicalAxisRules,
    find_logical_names,
    make_rule_shardings,
)
from hespas.support.errors import HespasError, UsageError
from hespas.workflows.planning import layout_builders, layout_space, plan_search
from hespas.workflows.planning.layout_programs import LayoutPrograms
from hespas.workflows.planning.layout_space import LayoutRequest, ProgramInterface

jax = pytest.importorskip("jax")
P = jax.sharding.PartitionSpec

RULES = LogicalAxisRules.from_table(
    [("batch", ["data", "fsdp"]), ("heads", "tensor"), ("mlp", "tensor"), ("embed", "fsdp"),
     ("embed", "data"), ("norm", None)]
)  # fmt: skip
FUNCTION = """
import jax
import jax.numpy as jnp


def compute_loss(params, x):
    return jnp.mean(jnp.square(jax.nn.relu(x @ params["up"]) @ params["down"]).astype(jnp.float32))


def step(params, x, rate=0.1):
    value, gradients = jax.value_and_grad(compute_loss)(params, x)
    update = lambda old, gradient: (old - rate * gradient).astype(old.dtype)
    return jax.tree.map(update, params, gradients), value
"""
SPEC = """
rules: {batch: [data, fsdp], embed: fsdp, mlp: tensor}
args:
  - up: bf16[256,1024]@embed,mlp
    down: bf16[1024,256]@mlp,embed
  - bf16[512,256]@batch
donate: [0]
"""


@pytest.mark.parametrize(
    ("names", "axes"),
    [
        (("batch", "embed"), (("data", "fsdp"), ())),  # both axes of embed are in use
        (("embed", "mlp"), (("fsdp",), ("tensor",))),
        (("heads", "mlp"), (("tensor",), ())),
        (("norm", None), ((), ())),
    ],
)
def test_an_axis_divides_one_dimension_of_an_array(
    names: tuple[str, ...], axes: tuple[tuple[str, ...], ...]
) -> None:
    assert RULES.assign_mesh_axes(names) == axes
    assert RULES.list_mesh_axes() == ("data", "fsdp", "tensor")


def test_a_second_rule_applies_if_the_axes_of_the_first_are_used() -> None:
    rules = LogicalAxisRules.from_table([("vocab", "fsdp"), ("embed", "fsdp"), ("embed", "data")])
    assert rules.assign_mesh_axes(("vocab", "embed")) == (("fsdp",), ("data",))
    assert rules.describe_layout({"fsdp": 4, "data": 1}) == {"vocab": "fsdp=4", "embed": "fsdp=4"}


@pytest.mark.parametrize("table", ["fsdp", ["fsdp"], [("embed", 3)], [("embed", ["fsdp", 3])]])
def test_a_table_of_another_form_is_an_error(table: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        LogicalAxisRules.from_table(table)


def test_a_name_without_a_rule_is_an_error() -> None:
    with pytest.raises(UsageError, match="no rule for the logical axis 'embd'") as caught:
        make_rule_shardings((P("embd"), None), RULES)
    assert "did you mean 'embed'?" in caught.value.remedy


@jax.tree_util.register_pytree_node_class
class NamedBox:
    """A box as Flax's: an array with the names of its dimensions."""

    def __init__(self, value: Any, names: tuple[str | None, ...]) -> None:
        self.value, self.names = value, names

    def unbox(self) -> Any:
        return self.value

    def tree_flatten(self) -> tuple[tuple[Any], tuple[str | None, ...]]:
        return (self.value,), self.names

    @classmethod
    def tree_unflatten(cls, names: tuple[str | None, ...], values: tuple[Any]) -> NamedBox:
        return cls(values[0], names)


def test_boxes_name_the_axes_of_their_arrays() -> None:
    shape = jax.ShapeDtypeStruct((8, 8), "float32")
    tree = {"kernel": NamedBox(shape, ("embed", "mlp")), "scale": shape}
    assert find_logical_names(tree) == {"kernel": P("embed", "mlp"), "scale": P()}
    assert find_logical_names({"scale": shape}) is None
    build = layout_builders.make_sharding_function((tree,), RULES)
    assert build({}) == (({"kernel": P("fsdp", "tensor"), "scale": P()},), None)


@jax.tree_util.register_pytree_with_keys_class
class NamedVariable:
    """A variable as Flax NNX's: an array with metadata."""

    def __init__(self, value: Any, **metadata: Any) -> None:
        self.value, self.metadata = value, metadata

    def get_metadata(self) -> dict[str, Any]:
        return self.metadata

    def tree_flatten_with_keys(self) -> tuple[Any, Any]:
        return ((jax.tree_util.GetAttrKey("value"), self.value),), tuple(self.metadata.items())

    @classmethod
    def tree_unflatten(cls, metadata: Any, values: tuple[Any]) -> NamedVariable:
        return cls(values[0], **dict(metadata))


@pytest.fixture
def nnx(monkeypatch: pytest.MonkeyPatch) -> type[NamedVariable]:
    module = types.SimpleNamespace(Variable=NamedVariable)
    monkeypatch.setitem(sys.modules, "flax.nnx", module)  # type: ignore[arg-type]
    return NamedVariable


@pytest.mark.parametrize(
    "metadata",
    [
        {"out_sharding": ("embed", "mlp")},  # Flax 0.12
        {"sharding_names": ("embed", "mlp"), "mesh": None},
        {"sharding": ("embed", "mlp")},
        {"out_sharding": P("embed", "mlp")},
        {"out_sharding": ("fsdp", "tensor")},  # axes of the mesh
        {"out_sharding": ("own", ("tensor",)), "sharding_rules": (("own", "fsdp"),)},
    ],
)
def test_variables_name_the_axes_of_their_arrays(
    nnx: type[NamedVariable], metadata: dict[str, Any]
) -> None:
    """As ``flax.nnx.get_partition_spec`` reads them."""
    shape = jax.ShapeDtypeStruct((8, 8), "float32")
    state = {"kernel": nnx(shape, **metadata), "bias": nnx(shape, eager_sharding=False)}
    build = layout_builders.make_sharding_function((state,), RULES)
    assert build({}) == (({"kernel": P("fsdp", "tensor"), "bias": P()},), None)
    assert find_logical_names({"bias": state["bias"]}) is None


def test_every_array_has_a_name_and_a_spec_beside_absent_parts(nnx: type[NamedVariable]) -> None:
    shape = jax.ShapeDtypeStruct((8, 8), "float32")
    model = {"kernel": nnx(shape, out_sharding=("embed", None)), "bias": None, "scale": shape}
    shardings = layout_builders.make_sharding_function((model,), RULES)
    builder = layout_builders.FunctionBuilder(
        lambda model: model, "model", (model,), ("data", "fsdp", "tensor"), shardings
    )
    request = {"options": {}, "mesh": {"data": 1, "fsdp": 2, "tensor": 1}}
    answer = layout_builders.answer_task({"task": "specs", "export": request}, builder, "")
    assert answer["specs"] == {"model.kernel": "P('fsdp', None)", "model.scale": "P()"}


def test_rules_that_match_no_array_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {"batch": "data", "embed": "fsdp", "act": None, "heads": "tensor", "mlp": "tensor"}
    rules = LogicalAxisRules.from_table(table)
    make_rule_shardings((P("batch"), None), rules)
    flax = types.SimpleNamespace(logical_axis_rules=contextlib.nullcontext)
    monkeypatch.setitem(sys.modules, "flax.core.spmd", flax)  # type: ignore[arg-type]
    with rules.enter_flax_context() as pairs:  # as with_logical_constraint of Linen reads them
        assert [axes for name, axes in pairs if name in ("act",)] == [()]
    with rules.enter_flax_context() as pairs:  # and as NNX does
        assert dict(pairs).get("heads", "heads") == ("tensor",)
    assert rules.list_warnings() == [
        "rules without effect: no array has the logical axes 'embed', 'mlp'"
    ]
    spec = ExportSpec.model_validate(
        {"args": ["f32[8,8]@batch,embed"], "out_shardings": ["@mlp", None], "rules": table}
    )
    (warning,) = spec.list_warnings()
    assert warning.endswith("the logical axes 'act', 'heads'")


def test_a_specification_names_logical_axes() -> None:
    import yaml

    spec = ExportSpec.model_validate(yaml.safe_load(SPEC))
    assert spec.list_mesh_axes() == ("data", "fsdp", "tensor")
    assert ExportSpec.model_validate(spec.model_dump()) == spec
    builder = layout_builders.SpecBuilder(lambda params, x: x, "step", spec)
    mesh = {"data": 1, "fsdp": 2, "tensor": 4}
    program = builder.build_program({}, mesh)
    assert program.in_shardings == (
        {"up": P("fsdp", "tensor"), "down": P("tensor", "fsdp")}, P(("data", "fsdp")),
    )  # fmt: skip
    request = {"options": {}, "mesh": mesh}
    answer = layout_builders.answer_task({"task": "specs", "export": request}, builder, "")
    assert answer["specs"]["params.up"] == "P('fsdp', 'tensor')"
    task = {"task": "meshes", "export": request, "meshes": [mesh, {**mesh, "tensor": 3}]}
    whole, uneven = layout_builders.answer_task(task, builder, "")["meshes"]
    assert whole["argument_bytes"] == 2 * 256 * 1024 * 2 // 8 + 512 * 256 * 2 // 2
    assert uneven["error"].startswith("params.down of 1024x256 cannot be divided: 1024 over tensor")


def test_a_specification_without_rules_names_axes_of_the_mesh() -> None:
    spec = ExportSpec.model_validate({"args": ["f32[8,8]@data,tensor", ["f32[8]@fsdp+data"]]})
    assert spec.list_mesh_axes() == ("data", "tensor", "fsdp")
    both = ExportSpec.model_validate(
        {"args": ["f32[8]@a+b"], "rules": {"a": "data", "b": ["fsdp"]}}
    )
    with pytest.raises(UsageError, match="two logical axes of one dimension"):
        layout_builders.SpecBuilder(lambda x: x, "step", both).build_program({}, {})


def test_a_fixed_batch_is_not_divided() -> None:
    interface = ProgramInterface(("data",), {}, is_batch_fixed=True)
    request = LayoutRequest("step", "H100_80GB", 2, options={"remat": ["full", "none"]})
    facts = [layout_space.MeshFacts(0, 8)]
    space = layout_space.build_layout_space(request, interface, [{"data": 2}], facts)
    assert [candidate.options for candidate in space.candidates] == [
        {"remat": "full"}, {"remat": "none"},
    ]  # fmt: skip


def test_tokens_of_a_step_are_sequences_of_each_length() -> None:
    interface = ProgramInterface(("data",), {"batch": "1", "sequence": "1024"})
    request = LayoutRequest(
        "llama", "H100_80GB", 2, global_tokens=4096, options={"sequence": ["512", "1024"]}
    )
    facts = [layout_space.MeshFacts(2, 8)]
    space = layout_space.build_layout_space(request, interface, [{"data": 2}], facts)
    assert [(c.options["sequence"], c.options["batch"]) for c in space.candidates] == [
        ("512", "4"), ("1024", "2"),
    ]  # fmt: skip
    with pytest.raises(UsageError, match="4096 tokens of a step are not whole sequences of 1000"):
        request.count_samples("1000")
    with pytest.raises(UsageError, match="is given twice"):
        LayoutRequest("llama", "H100_80GB", 2, 4, global_tokens=4096).count_samples("1024")
    with pytest.raises(UsageError, match="is not given"):
        LayoutRequest("llama", "H100_80GB", 2).count_samples("1024")


def test_a_changed_source_is_another_program(tmp_path: Path) -> None:
    file = tmp_path / "step.py"
    digests = []
    for text in (FUNCTION, FUNCTION, FUNCTION.replace("0.1", "0.2")):
        file.write_text(text)
        programs = LayoutPrograms(f"{file}:step", "cpu", tmp_path, 1, print)
        digests.append(programs.make_request({}, {})["content"])
    assert digests[0] == digests[1] != digests[2]
    assert "content" not in LayoutPrograms("llama", "cpu", tmp_path, 1, print).make_request({}, {})
    module = LayoutPrograms("hespas.recipes.llama:build", "cpu", tmp_path, 1, print)
    assert module.make_request({}, {})["content"]


def make_call(tmp_path: Path) -> tuple[Any, dict[str, Any]]:
    """A function with its arguments, and the machine that it is planned for."""
    names: dict[str, Any] = {}
    exec(FUNCTION, names)
    up, down = (jax.ShapeDtypeStruct(s, "bfloat16") for s in ((256, 1024), (1024, 256)))
    x = jax.ShapeDtypeStruct((512, 256), "bfloat16")
    machine = {
        "node": "H100_80GB", "devices": 4, "compile_count": 0, "mesh": {"data": 1},
        "work_dir": str(tmp_path / "programs"), "cache": str(tmp_path / "cells"),
    }  # fmt: skip
    return (names["step"], {"up": up, "down": down}, x), machine


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "follow from rules of logical axes or from the mesh"),
        ({"rules": {"embed": "fsdp"}}, "no argument has logical axes"),
        ({"rules": {"embed": "fsdp"}, "logical_axes": (None,)}, "1 entries for 2 arguments"),
    ],
)
def test_shardings_that_follow_from_nothing_are_an_error(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    call, machine = make_call(tmp_path)
    with pytest.raises(UsageError, match=message):
        package.plan(*call, **machine, **settings)
    with pytest.raises(UsageError, match="belongs to a function with its arguments"):
        package.plan("llama", **machine, rules={})


@pytest.mark.slow
def test_rules_a_function_of_the_mesh_and_a_file_give_one_answer(tmp_path: Path) -> None:
    call, machine = make_call(tmp_path)
    names = ({"up": P("embed", "mlp"), "down": P("mlp", "embed")}, P("batch"))
    rules = {"batch": ["data", "fsdp"], "embed": "fsdp", "mlp": "tensor", "heads": "tensor"}
    by_rules = package.plan(
        *call, **machine, rules=rules, logical_axes=names, donate_argnums=(0,), global_batch=512
    )
    (warning,) = by_rules.warnings
    assert "no array has the logical axis 'heads'" in warning and warning in str(by_rules)
    assert (
        by_rules.winner and by_rules.winner.figures and by_rules.winner.figures.get("samples_per_s")
    )
    assert by_rules.logical_axes.keys() == rules.keys() and by_rules.export_command == ""
    assert by_rules.partition_specs["params.up"] == "P('fsdp', 'tensor')"

    def shard_arrays(mesh: Any) -> Any:
        return ({"up": P("fsdp", "tensor"), "down": P("tensor", "fsdp")}, P(("data", "fsdp"))), None

    by_mesh = package.plan(
        *call, **machine, shardings=shard_arrays, mesh_axes=("data", "fsdp", "tensor"),
        donate_argnums=(0,), options={"rate": 0.1},
    )  # fmt: skip
    assert by_mesh.logical_axes == {}
    (tmp_path / "step.py").write_text(FUNCTION)
    (tmp_path / "step.yaml").write_text(SPEC)
    by_file = package.plan(f"{tmp_path}/step.py:step", spec=tmp_path / "step.yaml", **machine)
    assert f"--spec {tmp_path}/step.yaml" in by_file.export_command
    steps = [
        {
            (row.candidate.mesh["fsdp"], row.candidate.mesh["tensor"]): row.figures.step_time_s
            for row in plan.ranked
            if row.figures
        }
        for plan in (by_rules, by_mesh, by_file)
    ]
    assert len(steps[0]) == 3 and steps[0] == steps[1] == steps[2]


@pytest.mark.slow
def test_a_function_that_fails_is_a_row(tmp_path: Path) -> None:
    call, machine = make_call(tmp_path)
    names = ({"up": P("embed", "mlp"), "down": P("mlp", "embed")}, P("batch"))
    rules = {"batch": ["data", "fsdp"], "embed": "fsdp", "mlp": "tensor"}
    plan = package.plan(*call, **machine, rules=rules, logical_axes=names, options={"rte": [0.1]})
    assert plan.winner is None
    assert {row.status for row in plan.rows} == {"failed"}
    assert all("unexpected keyword argument 'rte'" in row.reason for row in plan.rows)


ATTENTION = """
import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType, PartitionSpec as P

from hespas.frontends.export import Exportable

SHAPES = {n: jax.ShapeDtypeStruct((512, 8, 64), jnp.bfloat16) for n in "qkv"}
SHAPES["o"] = jax.ShapeDtypeStruct((8, 64, 512), jnp.bfloat16)


def attend(q, k, v):
    return jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation="cudnn")


def make_step(attend):
    def loss(params, x):
        q, k, v = (jnp.einsum("btd,dhk->bthk", x, params[name]) for name in "qkv")
        y = jnp.einsum("bthk,hkd->btd", attend(q, k, v), params["o"])
        return jnp.mean(jnp.square(y).astype(jnp.float32))

    def step(params, x):
        gradients = jax.grad(loss)(params, x)
        return jax.tree.map(lambda p, g: (p - 0.1 * g).astype(p.dtype), params, gradients)

    return step


step = make_step(attend)


def build(mesh: dict[str, int] = {"fsdp": 2, "tensor": 2}, batch: int = 1) -> Exportable:
    '''As users write it: attention in a shard_map over the mesh, beside automatic shardings.'''
    axes = (AxisType.Auto,) * len(mesh)
    abstract = AbstractMesh(tuple(mesh.values()), tuple(mesh), axis_types=axes)
    heads = P("fsdp", None, "tensor")
    local = jax.shard_map(attend, mesh=abstract, in_specs=(heads,) * 3, out_specs=heads)
    specs = {n: P("fsdp", "tensor") for n in "qkv"} | {"o": P("tensor", None, "fsdp")}
    samples = batch * mesh["fsdp"]
    x = jax.ShapeDtypeStruct((samples, 1024, 512), jnp.bfloat16)
    facts = {"samples_per_step": samples}
    return Exportable("mine", make_step(local), (SHAPES, x), mesh, (specs, P("fsdp")), facts=facts)
"""


@pytest.mark.slow
@pytest.mark.skipif(find_gpu_library() is None, reason="needs hespas[gpu-compiler]")
def test_an_own_model_with_cudnn_attention(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The function with rules and the builder with a shard_map make the same programs."""
    (tmp_path / "own_attention.py").write_text(ATTENTION)
    monkeypatch.syspath_prepend(tmp_path)
    own = importlib.import_module("own_attention")
    monkeypatch.delitem(sys.modules, "own_attention")
    monkeypatch.setattr(plan_search, "MIN_DIFFERENCE", -1.0)  # every part is listed
    settings: dict[str, Any] = {
        "node": "H100_80GB", "devices": 4, "mesh": {"tensor": [1, 2]},
        "work_dir": str(tmp_path / "work"), "cache": str(tmp_path / "cells"),
    }  # fmt: skip
    names = {n: P("embed", "heads", None) for n in "qkv"} | {"o": P("heads", None, "embed")}
    by_rules = package.plan(
        own.step, own.SHAPES, jax.ShapeDtypeStruct((4, 1024, 512), jax.numpy.bfloat16),
        rules={"batch": "fsdp", "embed": "fsdp", "heads": "tensor"},
        logical_axes=(names, P("batch")), **settings,
    )  # fmt: skip
    settings["mesh"]["fsdp"] = [2, 4]
    by_builder = package.plan(f"{tmp_path / 'own_attention.py'}:build", global_batch=4, **settings)
    for plan in (by_rules, by_builder):
        assert plan.winner is not None and plan.winner.compiled is not None
        assert plan.winner.compiled.get("mfu") and plan.verdict.startswith("Rank 1 is the fastest")
        # XLA makes fusions of products, and an op of another name of attention.
        parts = {part.part: part.winner_s for part in plan.differences}
        assert parts["attention"] > 0 and parts["matrix products"] > 0
    first, second = (plan.winner and plan.winner.compiled for plan in (by_rules, by_builder))
    assert first and second and first.step_time_s == pytest.approx(second.step_time_s, rel=0.02)
    assert by_builder.partition_specs["x"] == str(P("fsdp"))


def test_a_program_of_any_axes_has_those_of_its_default_mesh(tmp_path: Path) -> None:
    def build(mesh: dict[str, int] = {"fsdp": 2, "tensor": 2}, batch: int = 1) -> None:  # noqa: B006
        pass

    interface = layout_builders.RecipeBuilder(build, "build").describe_interface()
    request = LayoutRequest("build", "H100_80GB", 4, global_batch=4)
    sizes = layout_space.select_axis_sizes(request, interface)
    assert sizes == {"fsdp": (1, 2, 4), "tensor": (1, 2, 4)}
    request = LayoutRequest("build", "H100_80GB", 4, axes={"data": [4]}, global_batch=4)
    assert layout_space.select_axis_sizes(request, interface) == {"data": (4,)}


def test_a_batch_that_cannot_be_split_names_its_remedy() -> None:
    interface = ProgramInterface(("data",), {"batch": "1"})
    request = LayoutRequest("build", "H100_80GB", 2, global_batch=16)
    facts = [layout_space.MeshFacts(2048, 8)]
    space = layout_space.build_layout_space(request, interface, [{"data": 2}], facts)
    assert "without the fact samples_per_step" in space.candidates[0].error
    array = jax.ShapeDtypeStruct((1, 8), "float32")
    with pytest.raises(UsageError, match="batch counts the samples of each batch shard"):
        layout_builders._count_local_bytes("x", array, P("data"), {"data": 2}, {"batch": "1"})


DATA_AND_TENSOR = {"data": 1, "tensor": 1}


def build_whole_step(
    mesh: dict[str, int] = DATA_AND_TENSOR, global_batch: int = 8, width: int = 512
) -> Exportable:
    """Build a step that divides all of its samples over the mesh itself."""
    if global_batch % mesh["data"]:
        raise ValueError(f"{global_batch} samples over data={mesh['data']}")
    shapes = ((width, 4 * width), (4 * width, width), (global_batch, width))
    args = tuple(jax.ShapeDtypeStruct(shape, jax.numpy.bfloat16) for shape in shapes)
    specs = (P(None, "tensor"), P("tensor", None), P("data", None))
    facts = {"samples_per_step": global_batch}
    return Exportable("mlp", compute_mlp, args, mesh, specs, None, facts=facts)


def build_fixed_step(mesh: dict[str, int] = DATA_AND_TENSOR) -> Exportable:
    return build_whole_step(mesh, 4096)


def compute_mlp(up: Any, down: Any, x: Any) -> Any:
    return jax.numpy.mean(jax.nn.relu(x @ up) @ down)


def test_a_build_may_divide_the_global_batch_itself(tmp_path: Path) -> None:
    """By an option ``global_batch``, or with a batch of its own: all layouts do the same step."""
    request: dict[str, Any] = {
        "node": "H100_80GB", "devices": 4, "compile_count": 0, "work_dir": str(tmp_path),
        "cache": str(tmp_path / "cells"),
    }  # fmt: skip
    plans = [
        package.plan(build, global_batch=4096, **request)
        for build in (build_whole_step, build_fixed_step)
    ]
    for plan in plans:
        assert [row.status for row in plan.rows] == ["estimated"] * 3
        assert {row.candidate.mesh["data"] for row in plan.rows} == {1, 2, 4}
    steps_s = [[row.fused.step_time_s for row in plan.rows if row.fused] for plan in plans]
    assert steps_s[0] == steps_s[1]
    assert plans[0].rows[0].candidate.options["global_batch"] == "4096"
    rates = [row.fused.get("samples_per_s") for row in plans[0].rows if row.fused]
    assert rates == pytest.approx([4096 / step_s for step_s in steps_s[0]])


def test_a_step_of_another_batch_is_no_layout(tmp_path: Path) -> None:
    request: dict[str, Any] = {
        "node": "H100_80GB", "devices": 4, "compile_count": 0, "work_dir": str(tmp_path)
    }  # fmt: skip
    plan = package.plan(build_fixed_step, global_batch=64, **request)
    assert {row.reason for row in plan.rows} == {
        "a step has 4096 samples, and not the 64 of the plan"
    }
    uneven = package.plan(build_whole_step, global_batch=6, mesh={"data": 4}, **request)
    assert [row.reason for row in uneven.rows] == ["ValueError: 6 samples over data=4"]
    with pytest.raises(UsageError, match="the option 'global_batch' of 'build_whole_step' is that"):
        package.plan(build_whole_step, options={"global_batch": 64}, **request)


def test_a_build_without_shardings_is_an_error() -> None:
    builder = layout_builders.FunctionRecipeBuilder(lambda: None, "build")
    with pytest.raises(HespasError, match="needs an Exportable with in_shardings"):
        builder.build_program({}, None)  # type: ignore[arg-type]
