"""The text of ``docs/reference/recipes.md``."""

from __future__ import annotations

import dataclasses
import inspect

from docs.generators.markdown import format_table
from hespas.frontends.export.program_source import RECIPES, find_program_function
from hespas.frontends.export.recipe_options import collect_options
from hespas.recipes.bert import BertOptions
from hespas.recipes.encoder_decoder import make_t5_weights
from hespas.recipes.language_models import DecoderModel
from hespas.recipes.layer_weights import (
    Tree,
    count_parameters,
    make_layers,
    make_model_weights,
)
from hespas.recipes.masked_language_model import make_bert_weights
from hespas.recipes.published_models import MODELS

HEAD = """# Recipes

This page is generated from the modules in `recipes` by `make generate`.

[`hespas export`](../how-to/export.md) exports a recipe as StableHLO; `--mesh` sets the mesh of
devices, and `--set` an option. Recipes are plain JAX on shapes alone, so that programs of any size
can be exported on any machine:

```sh
hespas export llama --model 70b --mesh fsdp=64,tensor=8 --set scan=true -o llama.mlir.xz
hespas export moe --model tiny-moe --mesh expert=4 --set sequence=64 -o moe.mlir
hespas run --mlir moe.mlir --node H100_80GB --system H100_80GB_4GPU --output traces
```

With `partitioning=manual`, and in recipes without that option, a program is written for one device
and contains its collectives, inside `jax.shard_map`. It needs no partitioner, and formulas give its
communication (below). With `partitioning=auto` the same model has sharding constraints, and XLA's
partitioner chooses the collectives. It all-reduces whole gradients and slices each device's part of
them; XLA turns these pairs into reduce-scatters later, for GPUs and TPUs.

`parameters`, `tokens_per_step` (or `images_per_step`) and `flops_per_step` are reported with the
export. The last counts the matrix products and convolutions of all devices; a training step counts
three times its forward pass, or what remains of it with adapters (below). Recomputation by `remat`,
the fill of a pipeline and unused capacity of experts are not included.
"""

MODELS_HEAD = """
## Models

The option `model` selects one of these models. 100m to 3b are those of the published workloads
(arXiv 2604.12090), and 8b, 70b and 405b are Llama 3; `published_models.py` names all sources.
The tiny ones are for tests. Options such as `layers` and `emb` override single dimensions. The last
column lists what differs from Llama; learned positions are counted for 2048 tokens, those of BERT
for 512. The layers of a T5 are those of each of its stacks.

"""
SIZES = ("emb", "heads", "kv_heads", "head_dim", "layers", "mlp", "vocab")

COLLECTIVES = """
## The communication in a step of llama

The table shows the collectives with `partitioning=manual` and `remat` none, weights, minimal or
full, for L separate layers of 7 matrices each. The tests count them on each kind of mesh. With
`scan`, a loop runs L times and contains the collectives of one layer. The other policies of `remat`
need between as many as minimal and full.

| axis | collective | forward | backward |
|---|---|---|---|
| fsdp | all_gather | 7L + 2: matrices | 7L unless `remat` is none |
| | reduce_scatter | | 7L + 2: their gradients |
| data, context | all_reduce | | 7L + 2: gradients, scattered ones if fsdp splits them |
| data, fsdp, context | all_reduce | 1: the loss | 2L + 1: gradients of the norms |
| tensor | all_reduce | 2L + 1: embedding, attention, MLP | 2L + 1; L more if `remat` is full |
| | all_reduce | 3: cross-entropy | |
| tensor, `sequence_parallel` | all_gather | 2L + 1 | 2L + 1; 2L more if minimal or full |
| | reduce_scatter | 2L + 1 | 2L + 1; L more if `remat` is full |
| | all_reduce | 3: cross-entropy | 2L + 1: gradients of the norms |
| context | all_gather | 2L: keys and values | 2L if `remat` is full |
| | reduce_scatter | | 2L |
| fsdp, tensor | all_reduce | | 1 unless `clip` is 0: the norm of the gradients |

The published llama3-100m has 100 all-gathers too (L = 7 on fsdp). When XLA has optimised both
programs for an H100, each has 51 reduce-scatters and 12 combined all-gathers. Weights and gradients
are sent in `compute_dtype`.

`gpt` and `gemma` communicate likewise. An embedding that the logits use too is gathered once, and
its gradient scattered once; learned positions are one more matrix; gradients of biases are summed
like those of norms.

In the other recipes, `decode` and `prefill` have 2L + 1 all_reduce over tensor, and 2 that choose
the token. `moe` has 2L all_to_all forward and 2L backward. `pipeline` has a collective_permute in
each of the `microbatches + stages - 1` steps of its loop, forward and backward. `resnet` has one
all_reduce for the gradient of each parameter, and one forward and one backward for each batch norm.
"""

ADAPTERS = """
## Adapters beside frozen weights

With `lora_rank`, a step of llama, gpt or gemma trains adapters only: LoRA (arXiv 2106.09685).
`lora_targets` selects the projections of a layer that have one. The product with such a projection
is the sum of the product with the weight, which is frozen, and of two products whose inner width is
the rank. Queries, keys and values have adapters of their own.

```sh
hespas export llama --model llama2-70b --mesh data=2,tensor=4 --set lora_rank=16 \\
  --set products=fp8 --set scan=true --set sequence=8192 -o lora.mlir.xz
```

The gradients of activations go through both products. A frozen weight has no gradient, so that its
product has two thirds of the usual work, and no optimiser state. It is stored in the type in which
products read it: with `products`, those of layers in 8 bits with one scale, the others in
`compute_dtype`. The mesh divides frozen weights as trained ones, and an adapter as the dimensions
that it shares with its weight. `zero1`, `accumulate`, `weights_dtype` and the collectives of
gradients concern adapters alone. The inputs of adapters have no dropout, and their factor
alpha / rank is 1; with `separate_kernels` each is a pass over the values in both directions, the
dropout without its mask.

`parameters` counts the weights of the model and the adapters. `flops_per_step` counts three times
the forward pass without the gradients of frozen weights.
"""

MEASURED = """
## Time and memory of an export

The table shows CPU seconds / GB of memory of `hespas export llama`, including start-up and writing;
the memory is that of the largest process. Programs with `manual` are lowered, programs with `auto`
are partitioned by XLA for `cpu` (2026-11-21, jax 0.10.2).

| model | mesh | manual | manual, `scan` | auto, partitioned |
|---|---|---|---|---|
| 100m | fsdp=4 | 1.8 / 0.29 | 1.7 / 0.29 | 3.4 / 0.29 |
| 200m | fsdp=4 | 1.9 / 0.29 | 1.9 / 0.29 | 4.5 / 0.29 |
| 500m | fsdp=4 | 2.3 / 0.30 | 2.7 / 0.29 | 6.8 / 0.33 |
| 1b | fsdp=4 | 2.6 / 0.31 | 2.0 / 0.29 | 9.5 / 0.40 |
| 2b | fsdp=4 | 2.7 / 0.31 | 1.9 / 0.29 | 9.0 / 0.46 |
| 3b | fsdp=4 | 2.7 / 0.32 | 2.0 / 0.29 | 10.3 / 0.51 |
| 8b | fsdp=8 | 3.0 / 0.32 | 1.9 / 0.29 | 10.5 / 0.51 |
| 70b | fsdp=64,tensor=8 | 5.2 / 0.37 | 2.4 / 0.29 | 29.1 / 1.22 |
"""


def render_page() -> str:
    """Return the text of the page."""
    models = format_table(
        ("model", *SIZES, "parameters", "differences"), map(_list_model_cells, MODELS)
    )
    parts = [HEAD, *map(_render_recipe, RECIPES)]
    return "".join([*parts, MODELS_HEAD, models, COLLECTIVES, ADAPTERS, MEASURED])


def _render_recipe(name: str) -> str:
    build = find_program_function(name)
    description = inspect.cleandoc(build.__doc__ or "").partition("Raises:\n")[0].strip()
    description = description.replace("``", "`")
    rows = [
        (
            f"`{option.name}`",
            option.describe_form().replace(" | ", ", "),
            option.format_default() or "-",
            option.help,
        )
        for option in collect_options(build)
    ]
    options = format_table(("option", "values", "default", "meaning"), rows)
    return f"\n## {name}\n\n{description}\n\n{options}"


def _list_model_cells(name: str) -> tuple[object, ...]:
    m = MODELS[name]
    count = count_parameters(_make_weights(m))
    return name, *(getattr(m, size) for size in SIZES), f"{count:,}", _render_differences(m)


def _make_weights(m: DecoderModel) -> Tree:
    """Make the weights of a model, without types."""
    if m.positions == "relative":
        return make_t5_weights(m, None, m.layers, scan=True)
    layers = make_layers(m, None, scan=True)
    if m.norms_after_sums:
        return make_bert_weights(m, None, layers, BertOptions.positions)
    return make_model_weights(m, None, layers, 2048)


def _render_differences(m: DecoderModel) -> str:
    """Return the parts of a model that differ from Llama's, as ``name=value``."""
    parts = [
        f"{field.name}={getattr(m, field.name)}"
        for field in dataclasses.fields(m)
        if field.default is not dataclasses.MISSING
        and getattr(m, field.name) != field.default
        and field.name != "rope_theta"
    ]
    return ", ".join(parts) or "-"
