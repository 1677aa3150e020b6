"""MaxText's own step: with a small package of its shape, and with MaxText where it is installed."""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import pytest

import hespas
from hespas.dialects.mlir import ir, make_context
from hespas.dialects.xla import find_gpu_library
from hespas.estimators.rules.custom_calls import find_kernel_name
from hespas.estimators.work import compute_op_work
from hespas.frontends.export import export_process, stages
from hespas.frontends.export.program_source import ExportRequest
from hespas.passes.base import PassRun
from hespas.recipes.standins import StandInFinder, StandInModule, install_stand_ins
from hespas.support.errors import HespasError
from hespas.tools.console_scripts import run_tool_main
from hespas.tools.hespas import main

pytestmark = pytest.mark.slow

INSTALLED = next((n for n in ("maxtext", "MaxText") if importlib.util.find_spec(n)), None)

COMPILER = '''
import jax, jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P
import tensorflow as tf
from maxtext.utils import accelerator_to_spec_map as hardware

TABLE = tf.io.Table(rows=3)

@tf.function
def unused(x): return x

class Config:
    mesh_axes = ["data", "fsdp", "tensor"]
    def __init__(self, keys):
        self.keys = keys
        self.ici_parallelism = [int(keys.get(f"ici_{a}_parallelism", 1)) for a in self.mesh_axes]

class State:
    """As flax's: a tree."""
    def __init__(self, params): self.params = params

jax.tree_util.register_pytree_with_keys(
    State, lambda s: (((jax.tree_util.GetAttrKey("params"), s.params),), None),
    lambda _, leaves: State(*leaves))

def get_topology_mesh(config): raise RuntimeError("there is no TPU")
def jit_and_compile(*args): raise RuntimeError("nothing to compile for")

class Rules:
    active = False
    def __enter__(self): Rules.active = True
    def __exit__(self, *_): Rules.active = False

def main(argv):
    print("settings: many")
    keys = dict(text.split("=") for text in argv[2:])
    if "nokey" in keys: raise ValueError("'nokey' not in " + ", ".join(map(repr, range(10**4))))
    assert hardware.UserFacingNameToSystemCharacteristics[keys["compile_topology"]].devices == 4
    mesh = get_topology_mesh(Config(keys))
    spec = P() if "whole" in keys else P("fsdp", "tensor")
    def train_step(state, batch):
        assert Rules.active and mesh.devices.flat[0].platform == keys["hardware"]
        if "data" in keys: tf.io.read(batch)
        if "engine" in keys: import transformer_engine
        if "kernel" in keys: raise NotImplementedError("Not supported on cpu.")
        local = jax.shard_map(lambda x: x + 1, mesh=mesh, in_specs=P("fsdp"), out_specs=P("fsdp"))
        return State({"w": state.params["w"] + local(batch).mean()}), {"loss": 1.0}
    state = State({"w": jax.ShapeDtypeStruct((8, 16), jnp.bfloat16),
                   "count": jax.ShapeDtypeStruct((3,), jnp.int32)})
    step = lambda state, batch: (State({**state.params, **train_step(state, batch)[0].params}), 1.0)
    step.__name__ = "train_step"
    batch = jax.ShapeDtypeStruct((4, 32), jnp.float32)
    place = lambda s: NamedSharding(mesh, s)
    shardings = State({"w": place(spec), "count": place(P())})
    jit_and_compile(step, (state, batch), {}, mesh, (shardings, place(P("fsdp"))),
                    (shardings, None), (), 0, Rules())
'''
HARDWARE = """
from collections import namedtuple
SystemCharacteristics = namedtuple("S", "platform topology chip bounds devices wrap")
UserFacingNameToSystemCharacteristics = {}
"""
PACKAGES = ("maxtext", "maxtext/trainers", "maxtext/trainers/pre_train", "maxtext/utils")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package that is built as MaxText is; its settings file."""
    files = {
        "maxtext/trainers/pre_train/train_compile.py": COMPILER,
        "maxtext/utils/accelerator_to_spec_map.py": HARDWARE,
        **dict.fromkeys([f"{p}/__init__.py" for p in PACKAGES], ""),
        "maxtext-7.8.dist-info/METADATA": "Name: maxtext\nVersion: 7.8\n",
        "flax-7.9.dist-info/METADATA": "Name: flax\nVersion: 7.9\n",
        "model.yml": "base_config: base.yml\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return str(tmp_path / "model.yml")


def lowered(
    model: str, mesh: dict[str, int], options: str = "", platform: str = "cpu"
) -> export_process.ExportedModule:
    settings = {"model": model, "options": options}
    return export_process.lower_in_process(
        ExportRequest("maxtext", settings, mesh, None, platform), say=lambda line: None
    )


def test_the_step_keeps_its_shardings_and_names(package):
    exported = lowered(package, {"fsdp": 2, "tensor": 2})
    text = str(ir.Module.parse(exported.bytecode, make_context()))
    assert "module @jit_train_step" in text and '[{"fsdp"}, {"tensor"}]' in text
    assert "sdy.manual_computation" in text and "tf.aliasing_output" in text
    assert exported.mesh == {"data": 1, "fsdp": 2, "tensor": 2}
    assert exported.facts == {"parameters": 128, "tokens_per_step": 128, "maxtext": "7.8"}


@pytest.mark.parametrize(("platform", "hardware"), [("tpu", "tpu"), ("cuda", "gpu")])
def test_the_step_sees_the_platform_of_the_target(package, platform, hardware):
    exported = lowered(package, {"fsdp": 4}, platform=platform)
    assert exported.devices == 4
    with pytest.raises(HespasError, match="AssertionError"):
        lowered(package, {"fsdp": 4}, f"hardware={hardware}-of-another-kind", platform)


@pytest.mark.parametrize(
    ("mesh", "options", "message"),
    [
        ({"fsdp": 4}, "ici_tensor_parallelism=2", "does not fit --mesh: fsdp 4, tensor 2"),
        ({"fsdp": 4}, "nokey=1", "'nokey' not in 0, 1"),
        ({"fsdp": 4}, "whole=1", "shards nothing with flax 7.9"),
        ({"fsdp": 4}, "data=1", "the program calls tensorflow.io.read"),
        ({"fsdp": 4}, "engine=1", "the package 'transformer_engine', which is not installed"),
        ({"fsdp": 4}, "kernel=1", "needs its device to be present; name a TPU with --target"),
    ],
)
def test_what_does_not_fit_is_one_line(package, mesh, options, message):
    with pytest.raises(HespasError) as caught:
        lowered(package, mesh, options)
    assert message in str(caught.value) and len(str(caught.value)) < 400


def test_missing_file_and_package(package, tmp_path, monkeypatch):
    with pytest.raises(HespasError, match="no such configuration file"):
        lowered(str(tmp_path / "none.yml"), {"fsdp": 4})
    if INSTALLED:
        pytest.skip("MaxText is installed")
    monkeypatch.delenv("PYTHONPATH")
    with pytest.raises(HespasError, match=r"MaxText is not installed.*hespas\[maxtext\]"):
        lowered(package, {"fsdp": 4})


def test_stand_ins_are_for_what_is_not_there():
    with install_stand_ins(["json", "surely_absent"]):
        json = importlib.import_module("json")
        absent = importlib.import_module("surely_absent.part")
        assert absent.decorator(len) is len
        assert isinstance(absent.Thing(1, a=2), absent.Thing)
        assert isinstance(absent.table(rows=1).row, StandInModule)
    assert json.loads("[1]") == [1]
    for call in (absent.decorator, absent.Thing):
        with pytest.raises(HespasError, match=r"program calls surely_absent\.part"):
            call(len)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("surely_absent_too")
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, StandInFinder)]


# The tutorial's configuration, and its published census after SPMD partitioning for a GPU.
LLAMA3_100M = """\
base_config: "base.yml"
base_emb_dim: 576
base_num_query_heads: 9
base_num_kv_heads: 9
base_num_decoder_layers: 7
base_mlp_dim: 2016
head_dim: 128
mlp_activations: ["silu", "linear"]
vocab_size: 128256
enable_dropout: False
logits_via_embedding: False
normalization_layer_epsilon: 1.0e-5
rope_max_timescale: 500_000
decoder_block: "llama2"
max_target_length: 4096
per_device_batch_size: 1
attention: "dot_product"
use_iota_embed: True
remat_policy: "minimal_with_context"
scan_layers: False
weight_dtype: "bfloat16"
steps: 30
"""
PUBLISHED = {
    "multiply": 1120, "add": 778, "all_reduce": 272, "dot_general": 208, "all_gather": 100,
    "reduce": 311, "broadcast_in_dim": 276,
}  # fmt: skip
# Later releases compute the norms by another way; the collectives of the parameters stay.
LATER = {"all_gather": 100, "all_reduce": 273, "dot_general": 223}


@pytest.mark.skipif(INSTALLED is None, reason="MaxText is not installed: hespas[maxtext]")
@pytest.mark.skipif(find_gpu_library() is None, reason="no XLA for GPUs: hespas[gpu-compiler]")
def test_census_of_llama3_100m(tmp_path: Path):
    (tmp_path / "llama3-100m.yml").write_text(LLAMA3_100M)
    exported = export_process.lower_in_process(
        ExportRequest(
            "maxtext", {"model": str(tmp_path / "llama3-100m.yml")}, {"fsdp": 4}, None, "cuda"
        )
    )
    assert exported.facts["parameters"] == 190_724_544
    assert math.prod(exported.mesh.values()) == 4
    module = ir.Module.parse(exported.bytecode, make_context())
    stages.advance_to_stage(module, "partitioned", "A100_SXM_40GB", PassRun())
    (main,) = (op for op in module.body.operations if str(op.sym_name) == '"main"')
    counts = Counter(op.operation.name for op in main.regions[0].blocks[0].operations)
    expected = PUBLISHED if version("maxtext") == "0.1.0" else LATER
    assert {name: counts[f"stablehlo.{name}"] for name in expected} == expected


FLASH = """\
base_config: "base.yml"
base_emb_dim: 512
base_num_query_heads: 4
base_num_kv_heads: 2
base_num_decoder_layers: 2
base_mlp_dim: 1024
head_dim: 128
vocab_size: 2048
decoder_block: "llama2"
mlp_activations: ["silu", "linear"]
enable_dropout: False
max_target_length: 2048
per_device_batch_size: 1
attention: "flash"
remat_policy: "full"
"""
BACKWARD = {  # the kernels of the backward pass, by the library
    "use_tokamax_splash=false": ["dkv", "dq"],
    "use_tokamax_splash=true": ["dkv"],
}


@pytest.mark.skipif(INSTALLED is None, reason="MaxText is not installed: hespas[maxtext]")
@pytest.mark.parametrize("library", BACKWARD)
def test_flash_attention_of_a_tpu_has_costs(tmp_path: Path, library: str):
    """Splash attention of JAX and of tokamax, forward, recomputed and backward."""
    (tmp_path / "flash.yml").write_text(FLASH)
    settings = {"model": str(tmp_path / "flash.yml"), "options": library}
    exported = export_process.lower_in_process(
        ExportRequest("maxtext", settings, {"fsdp": 4}, None, "tpu", target="TPUv5e")
    )
    module = ir.Module.parse(exported.bytecode, make_context())
    calls: list[ir.Operation] = []

    def collect_call(op: ir.Operation) -> ir.WalkResult:
        if "kernel_name" in op.attributes:
            calls.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(collect_call)
    kernels = [find_kernel_name(call) for call in calls]
    backward = [f"splash_mha_{name}_segmented_no_residuals" for name in BACKWARD[library]]
    assert sorted(kernels) == sorted([*backward, *["splash_mha_fwd_segmented_residuals"] * 2])
    causal_scores = 4 * (1 + 2 + 3 + 4) * 512 * 512
    assert {compute_op_work(call).transcendentals for call in calls} == {causal_scores}


# Two layers of Llama 8B: in MaxText's keys, as options of the recipe, and as a row of a table.
TWO_LAYERS = """\
base_config: "base.yml"
model_name: "llama3.1-8b"
"""
TWO_LAYERS_KEYS = "override_model_config=true base_num_decoder_layers=2"
TWO_LAYERS_OPTIONS = {
    "model": "8b", "layers": 2, "sequence": 2048, "remat": "minimal_flash", "accumulate": 1,
}  # fmt: skip
TWO_LAYERS_ROW = {
    "id": "two", "model": "llama3-8b", "hardware": "H100 SXM 80GB", "devices": "8",
    "step_time_s": "0.1", "layers": "2", "seq_len": "2048", "global_batch": "32",
    "precision": "bf16", "parallelism": "fsdp=8", "remat": "minimal_flash", "framework": "MaxText",
}  # fmt: skip
PLACE = {"system": "HGX_H100_8", "xla_optimize": "framework=maxtext"}


@pytest.mark.skipif(INSTALLED is None, reason="MaxText is not installed: hespas[maxtext]")
@pytest.mark.skipif(find_gpu_library() is None, reason="no XLA for GPUs: hespas[gpu-compiler]")
@pytest.mark.parametrize("products", ["none", "int8", "fp8_delayed"])
def test_the_keys_of_a_plan_rebuild_its_winner(
    tmp_path: Path, products: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    """MaxText's own program, from the keys of rank 1, takes the step of rank 1.

    The same program as a row of ``hespas validate`` has the very step of the plan.
    """
    monkeypatch.chdir(tmp_path)
    plan = hespas.plan(
        "llama", options={**TWO_LAYERS_OPTIONS, "products": products},
        mesh={"data": 1, "tensor": 1},
        node="H100_80GB", devices=8, global_batch=32, compile_count=1, work_dir="work",
        cache="none", systems=[PLACE["system"]], xla_optimize=PLACE["xla_optimize"],
    )  # fmt: skip
    assert plan.winner is not None and plan.winner.compiled is not None
    keys = dict(key.split("=", 1) for key in plan.maxtext_flags)
    assert keys["attention"] == "cudnn_flash_jax"
    assert ("quantization" in keys) == (products != "none")
    Path("two.yml").write_text(TWO_LAYERS)
    mesh = f"fsdp={keys.pop('ici_fsdp_parallelism')}"
    options = " ".join([TWO_LAYERS_KEYS, *(f"{name}={value}" for name, value in keys.items())])
    export = ["export", "maxtext", "--config", "two.yml", "--mesh", mesh, "--platform", "cuda"]
    assert run_tool_main(main, [*export, "--set", f"options={options}", "-o", "own.mlir"]) == 0
    own = hespas.estimate("own.mlir", target="H100_80GB", **PLACE)
    assert own.step_time_s == pytest.approx(plan.winner.compiled.step_time_s, rel=0.03)
    if products == "none":
        capsys.readouterr()
        lines = (",".join(TWO_LAYERS_ROW), ",".join(TWO_LAYERS_ROW.values()))
        Path("rows.csv").write_text("\n".join(lines))
        assert run_tool_main(main, ["validate", "rows.csv", "--work-dir", "work", "--json"]) == 0
        row = json.loads(capsys.readouterr().out)["rows"][0]
        assert row["predicted_s"] == pytest.approx(plan.winner.compiled.step_time_s, rel=1e-9)
