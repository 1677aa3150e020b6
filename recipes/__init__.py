"""The recipes: JAX programs, each with a function ``build(**options) -> Exportable``.

The programs are plain JAX on shapes alone. ``frontends/export/program_source.py`` lists them; a
package adds recipes through the entry point ``hespas.recipes``.
"""
