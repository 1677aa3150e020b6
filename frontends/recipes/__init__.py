"""The JAX programs that ship: each a function ``build(**options) -> Exportable`` in its own file.

They are plain JAX, on shapes alone. Naming them here imports nothing; a package adds its own by the
entry point ``hespas.recipes``.
"""

RECIPES = {
    "decode": "hespas.frontends.recipes.decode:build",
    "gemm": "hespas.frontends.recipes.gemm:build",
    "llama": "hespas.frontends.recipes.llama:build",
    "maxtext": "hespas.frontends.recipes.maxtext:build",
    "moe": "hespas.frontends.recipes.moe:build",
    "pipeline": "hespas.frontends.recipes.pipeline:build",
    "prefill": "hespas.frontends.recipes.prefill:build",
    "resnet": "hespas.frontends.recipes.resnet:build",
}
