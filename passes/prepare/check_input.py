"""Checks of the form of a module, with a remedy for each form that no pass can process."""

from __future__ import annotations

from typing import ClassVar

from hespas.dialects.mlir import get_attribute, ir, read_frontend_text
from hespas.passes.base import PassRun
from hespas.passes.prepare.census import ModuleCensus
from hespas.passes.prepare.inline_calls import order_callees_first, warn_of_unfused_composites
from hespas.passes.prepare.preparation import Preparation, PrepareStep
from hespas.support.errors import HespasError, format_op_place, format_some_places
from hespas.support.text_tables import format_count

UNRANKED_TYPES = (ir.UnrankedTensorType, ir.UnrankedMemRefType)


class CheckInputPass(PrepareStep):
    """Check the form of the module, and warn of unfused attention and computations on the host."""

    name: ClassVar[str] = "check-input"

    def rewrite(self, module: ir.Module, view: Preparation, run: PassRun) -> bool:
        check_input_form(view.census)
        warn_of_unfused_composites(view.census, run)
        _warn_of_host_computations(view.census, run)
        return False


def check_input_form(census: ModuleCensus) -> None:
    """Raise HespasError for several meshes, unranked arguments, jumps, no body, and recursion."""
    _check_single_mesh_program(census)
    check_ranked_boundary(census)
    _check_function_bodies(census)
    order_callees_first(census)  # XLA's compilers end the process for recursion


def _check_single_mesh_program(census: ModuleCensus) -> None:
    """Raise HespasError for an MPMD program, which has no one program of all devices."""
    remedy = "export the program of each mesh as a module of its own"
    message = "an MPMD program runs different programs on several meshes, and hespas estimates one"
    for op in census.select_ops_by_dialect("mpmd"):
        raise HespasError(message, op=op, remedy=remedy)
    if any(str(type_).startswith("!mpmd.") for type_ in census.boundary_types):
        raise HespasError(message, op=census.entry, remedy=remedy)


def check_ranked_boundary(census: ModuleCensus) -> None:
    """Raise HespasError for an argument or result of the entry function without a rank."""
    kind = get_attribute(census.entry, "function_type").value
    unranked = {type_ for type_ in census.boundary_types if isinstance(type_, UNRANKED_TYPES)}
    for noun, types in (("argument", kind.inputs), ("result", kind.results)) if unranked else ():
        for number, type_ in enumerate(types):
            if type_ in unranked:
                raise HespasError(
                    f"{noun} {number} of the entry function has the type {type_} without a rank",
                    op=census.entry,
                    remedy="export the program with shapes; single dimensions may be symbolic",
                )


def _warn_of_host_computations(census: ModuleCensus, run: PassRun) -> None:
    """Warn of calls that JAX's ``compute_on`` places on the host, whose speed is not known."""
    calls = [
        op
        for op in census.select_ops_by_name("func.call")
        if read_frontend_text(op, "_xla_compute_type") == "host"
    ]
    if calls:
        places = format_some_places(format_op_place(op, run.input_name) for op in calls)
        run.warn(
            f"{format_count(len(calls), 'computation')} on the host ({places}): estimated as if "
            "the device ran it, because the time of the host is not known"
        )


def _check_function_bodies(census: ModuleCensus) -> None:
    """Raise HespasError for functions without a body, whose cost is unknown, and for jumps."""
    for name, contents in census.functions.items():
        if not contents.function.regions[0].blocks:
            raise HespasError(
                f"the function @{name} is called and has no body",
                op=contents.function,
                remedy="add it to the module, or call a kernel by stablehlo.custom_call",
            )
        if len(contents.function.regions[0].blocks) > 1:
            raise HespasError(
                f"the function @{name} has more than one block",
                op=contents.function,
                remedy="express its control flow with stablehlo.while, if and case",
            )
