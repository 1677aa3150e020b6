"""The recipes: JAX programs, each with a function ``build(**options) -> Exportable``.

The programs are plain JAX on shapes alone. Listing them here imports none of them; a package adds
recipes through the entry point ``hespas.recipes``.
"""

RECIPES = {
    "bert": "hespas.frontends.recipes.bert:build",
    "decode": "hespas.frontends.recipes.decode:build",
    "gemm": "hespas.frontends.recipes.gemm:build",
    "gemma": "hespas.frontends.recipes.gemma:build",
    "gpt": "hespas.frontends.recipes.gpt:build",
    "llama": "hespas.frontends.recipes.llama:build",
    "maxtext": "hespas.frontends.recipes.maxtext:build",
    "moe": "hespas.frontends.recipes.moe:build",
    "pipeline": "hespas.frontends.recipes.pipeline:build",
    "prefill": "hespas.frontends.recipes.prefill:build",
    "resnet": "hespas.frontends.recipes.resnet:build",
    "stage": "hespas.frontends.recipes.stage:build",
    "t5": "hespas.frontends.recipes.t5:build",
}
