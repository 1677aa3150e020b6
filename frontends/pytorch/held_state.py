"""The modules and optimisers that a function is written around, as its arguments and results.

A training step of PyTorch often reads and changes a model and an optimiser that it captures:
``loss.backward()`` writes gradients to parameters, and ``optimizer.step()`` changes these in place.
Here the tensors that such objects hold become arguments. While the function is traced, the objects
hold the traced tensors instead of their own, so that they are unchanged afterwards.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import pkgutil
import types
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.nn.modules.rnn import RNNBase
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from hespas.support.errors import HespasError, extract_first_line

Tensors = dict[str, torch.Tensor]
WEIGHTS, BUFFERS, OPTIMISER_STATE = "weights", "buffers", "opt_state"
GRADIENTS = "gradients"
MAX_DEPTH = 4  # of objects and functions between the function and what it captures
LIBRARIES = ("torch", "builtins", "numpy", "jax", "hespas")  # whose objects hold no user's module
STEP = "step"  # of an optimiser's state: how many steps it has made


@dataclass(frozen=True)
class HeldState:
    """The modules and optimisers that a function captures, by name."""

    modules: Mapping[str, torch.nn.Module]
    optimisers: Mapping[str, Optimizer]

    def collect_parameters(self) -> dict[torch.Tensor, str]:
        """Return the parameters with their names, each once."""
        names: dict[torch.Tensor, str] = {}
        for module in self.modules.values():
            for name, parameter in module.named_parameters():
                names.setdefault(parameter, name)
        for label, optimiser in self.optimisers.items():
            for number, parameter in enumerate(_list_parameters(optimiser)):
                names.setdefault(parameter, f"{label}.{number}")
        return names

    def collect_tensors(self, states: Mapping[str, Any]) -> dict[str, dict[str, Tensors]]:
        """Return the tensors by the names of the objects that hold them, role, and name.

        Args:
            states: The states of the optimisers after a step.
        """
        names = self.collect_parameters()
        tensors: dict[str, dict[str, Tensors]] = {}
        for label, module in self.modules.items():
            weights, buffers = dict(module.named_parameters()), dict(module.named_buffers())
            tensors[label] = {WEIGHTS: weights, BUFFERS: buffers}
        of_modules = {id(p) for roles in tensors.values() for p in roles[WEIGHTS].values()}
        for label, optimiser in self.optimisers.items():
            tensors[label] = {
                WEIGHTS: {
                    names[p]: p for p in _list_parameters(optimiser) if id(p) not in of_modules
                },
                OPTIMISER_STATE: {
                    f"{names[p]}.{key}": value
                    for group in optimiser.param_groups
                    for p in group["params"]
                    for key, value in _flatten_state(
                        states[label].get(p, {}), is_on_host=not _steps_on_device(group)
                    ).items()
                },
            }
        found = {
            label: {role: group for role, group in roles.items() if group}
            for label, roles in tensors.items()
        }
        return {label: roles for label, roles in found.items() if roles}


def find_held_state(function: Callable[..., Any]) -> HeldState:
    """Find the modules and optimisers that a function captures, itself or by helpers and objects.

    A module within another one that is found belongs to that.
    """
    found: dict[str, Any] = {}
    _collect_holders(function, "", 0, set(), found)
    modules = {name: x for name, x in found.items() if isinstance(x, torch.nn.Module)}
    inner = {id(child) for x in modules.values() for child in x.modules() if child is not x}
    outer = {name: x for name, x in modules.items() if id(x) not in inner}
    optimisers = {name: x for name, x in found.items() if isinstance(x, Optimizer)}
    return HeldState(outer, {name: x for name, x in optimisers.items() if _list_parameters(x)})


def _collect_holders(
    value: Any, name: str, depth: int, visited: set[int], found: dict[str, Any]
) -> None:
    """Add the modules and optimisers that a value is, has or captures to those found."""
    if id(value) in visited or depth > MAX_DEPTH:
        return
    visited.add(id(value))
    parts: Mapping[str, Any] = {}
    if isinstance(value, torch.nn.Module):
        value = getattr(value, "_orig_mod", value)
    if isinstance(value, (torch.nn.Module, Optimizer)):
        label = name if name.isidentifier() else f"captured{name and '_'}{name}"
        while label in found:
            label += "_"
        found[label] = value
        # What wraps several optimisers is one, too.
        parts = vars(value) if isinstance(value, Optimizer) else {}
    elif isinstance(value, functools.partial):
        parts = {"": value.func, **value.keywords, **_number_parts(value.args)}
    elif isinstance(value, types.MethodType):
        parts = {"": value.__self__, " ": value.__func__}
    elif isinstance(value, types.FunctionType):
        parts = {} if _is_of_library(value.__module__) else _collect_captures(value)
    elif isinstance(value, (list, tuple)):
        parts = _number_parts(value)
    elif isinstance(value, dict):
        parts = {str(key): part for key, part in value.items()}
    elif hasattr(value, "__dict__") and not isinstance(value, (type, types.ModuleType)):
        parts = {} if _is_of_library(type(value).__module__) else vars(value)
    for key, part in parts.items():
        if isinstance(part, (str, bytes, int, float, complex, torch.Tensor, type(None))):
            continue
        label = f"{name}_{key}" if name and key.strip() else name or key.strip()
        label = "".join(c if c.isalnum() else "_" for c in label)
        _collect_holders(part, label, depth + 1, visited, found)


def _number_parts(values: Sequence[Any]) -> dict[str, Any]:
    return {str(number): value for number, value in enumerate(values)}


def _is_of_library(module: str | None) -> bool:
    return (module or "builtins").partition(".")[0] in LIBRARIES


def _collect_captures(function: types.FunctionType) -> dict[str, Any]:
    """Collect the values of the outer variables that a function uses."""
    captures: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # not assigned yet
            captures[name] = cell.cell_contents
    codes = [function.__code__]
    for code in codes:
        codes += [part for part in code.co_consts if isinstance(part, types.CodeType)]
        names = [name for name in code.co_names if name in function.__globals__]
        captures.update((name, function.__globals__[name]) for name in names)
    # Other modules are reached as globals only, and hold no state of this program.
    return {k: v for k, v in captures.items() if not isinstance(v, types.ModuleType)}


def _has_parts(optimiser: Optimizer) -> bool:
    """Return whether an optimiser wraps others, which have the state."""
    values = vars(optimiser).values()
    parts = [x for value in values for x in (value if isinstance(value, list) else [value])]
    return any(isinstance(part, Optimizer) for part in parts)


def _list_parameters(optimiser: Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimiser.param_groups for parameter in group["params"]]


def _flatten_state(state: Mapping[str, Any], *, is_on_host: bool) -> Tensors:
    """Return the tensors of a parameter's state by their paths, without its numbers on the host."""
    device_state = {k: v for k, v in state.items() if not (is_on_host and k == STEP)}
    leaves, _ = pytree.tree_flatten_with_path(device_state)
    return {
        ".".join(str(getattr(key, "key", getattr(key, "idx", key))) for key in path): leaf
        for path, leaf in leaves
        if isinstance(leaf, torch.Tensor)
    }


def _steps_on_device(group: Mapping[str, Any]) -> bool:
    """Return whether an optimiser keeps the numbers of steps of a group on the device."""
    return bool(group.get("capturable") or group.get("fused"))


def _get_host_rate(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rate of a group as a number if it is a tensor that the host reads in each step."""
    rate = group.get("lr")
    if not isinstance(rate, torch.Tensor) or _steps_on_device(group):
        return {}
    with _disable_current_modes():
        return {"lr": rate.item()}


class _Steps:
    """The steps that optimisers make while a function is traced.

    Attributes:
        stepped: The optimisers that have made a step.
    """

    def __init__(self) -> None:
        self.stepped: list[Optimizer] = []
        self._numbers: dict[Optimizer, int] = {}
        self._current = 1

    def start_step(self, optimiser: Optimizer, *_: Any) -> None:
        self.stepped.append(optimiser)
        self._numbers[optimiser] = self._numbers.get(optimiser, 1) + 1
        self._current = self._numbers[optimiser]

    def get_value(self, value: Any) -> Any:
        """Return a number that an optimiser has on the host; numbers of steps are not traced."""
        return float(self._current) if isinstance(value, torch.Tensor) else value


@contextlib.contextmanager
def run_optimisers_by_ops() -> Iterator[_Steps]:
    """Let optimisers compute as they do on a GPU, where the number of a step is on the host.

    It is a constant of the program, that of an optimiser's second step, unless the optimiser is
    ``capturable`` or ``fused`` and keeps it on the device.
    """
    steps = _Steps()
    hook = register_optimizer_step_pre_hook(steps.start_step)
    replacements = {
        "_get_value": steps.get_value,
        "_get_capturable_supported_devices": lambda *_, **__: ["cpu", "cuda"],
    }
    try:
        with contextlib.ExitStack() as stack:
            for info in pkgutil.iter_modules(torch.optim.__path__):
                module = importlib.import_module(f"torch.optim.{info.name}")
                for name in replacements.keys() & set(vars(module)):
                    stack.enter_context(mock.patch.object(module, name, replacements[name]))
            yield steps
    finally:
        hook.remove()


def _initialise_optimiser(
    optimiser: Optimizer, make_like: Callable[[torch.Tensor], torch.Tensor]
) -> dict[torch.Tensor, Any]:
    """Return the state that an optimiser has after its first step, by parameter.

    Args:
        optimiser: The optimiser, which stays unchanged.
        make_like: Makes a fake tensor that is like a parameter.

    Raises:
        HespasError: The optimiser cannot step without a closure.
    """
    with FakeTensorMode(allow_non_fake_inputs=True):
        parameters = {p: make_like(p) for p in _list_parameters(optimiser)}
        with run_optimisers_by_ops(), _hold_in_optimiser(optimiser, parameters, {}):
            for original, parameter in parameters.items():
                if original.requires_grad:
                    parameter.grad = torch.zeros_like(parameter)
            try:
                optimiser.step()
            except (TypeError, DataDependentOutputException) as error:
                raise HespasError(
                    f"the optimiser {type(optimiser).__name__} cannot make a step from gradients "
                    f"without values: {extract_first_line(str(error))}",
                    remedy="use one whose step has no function as argument, and no control flow "
                    "that depends on the values of tensors",
                ) from error
            return {p: optimiser.state.get(new, {}) for p, new in parameters.items()}


@contextlib.contextmanager
def _hold_in_optimiser(
    optimiser: Optimizer,
    parameters: Mapping[torch.Tensor, torch.Tensor],
    state: Mapping[torch.Tensor, Any],
) -> Iterator[None]:
    """Let an optimiser hold other parameters, which are by its own, with their state."""
    groups, own_state = optimiser.param_groups, optimiser.state
    optimiser.param_groups = [
        {
            **group,
            "params": [parameters[p] for p in group["params"]],
            **_get_host_rate(group),
            # The same computation as separate ops, which XLA fuses.
            **({"fused": False} if "fused" in group else {}),
            **({"capturable": _steps_on_device(group)} if "capturable" in group else {}),
        }
        for group in groups
    ]
    optimiser.state = defaultdict(dict, {parameters[p]: part for p, part in state.items()})
    try:
        yield
    finally:
        optimiser.param_groups, optimiser.state = groups, own_state


@contextlib.contextmanager
def _hold_in_module(module: torch.nn.Module, tensors: Mapping[int, torch.Tensor]) -> Iterator[None]:
    """Let a module hold other tensors, which are by the ids of its own."""
    kept: list[tuple[dict[str, Any], dict[str, Any]]] = []
    recurrent = [child for child in module.modules() if isinstance(child, RNNBase)]
    lists = [child._flat_weights for child in recurrent]
    for child in module.modules():
        for store in (child._parameters, child._buffers):
            kept.append((store, dict(store)))
            for name, tensor in store.items():
                store[name] = tensors.get(id(tensor), tensor)
    for child in recurrent:  # these hold their weights twice
        child._flat_weights = [getattr(child, name) for name in child._flat_weights_names]
    try:
        yield
        for store, own in kept:  # what the program has put in the place of a buffer
            for name, value in store.items():
                traced = tensors.get(id(own.get(name)))
                if traced is not None and value is not traced and value is not None:
                    with torch.no_grad():
                        traced.copy_(value)
    finally:
        for store, own in kept:
            store.clear()
            store.update(own)
        for child, weights in zip(recurrent, lists, strict=True):
            child._flat_weights = weights


class StatefulFunction:
    """A function whose last arguments are what the objects that it captures hold.

    Attributes:
        tensors: These arguments by the names of the objects, with their tensors by role and name.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        held: HeldState,
        make_like: Callable[[torch.Tensor], torch.Tensor],
    ) -> None:
        self.function, self.held = function, held
        self.states = {
            label: {} if _has_parts(optimiser) else _initialise_optimiser(optimiser, make_like)
            for label, optimiser in held.optimisers.items()
        }
        self.tensors = held.collect_tensors(self.states)

    def __call__(self, *args: Any) -> tuple[Any, Tensors]:
        """Call the function while the objects hold the tensors among the arguments.

        Returns:
            The result, and by name the gradients that parameters have in the end and with which no
            optimiser has made a step.
        """
        count = len(args) - len(self.tensors)
        traced = {
            id(original): _make_like_original(values[role][name], original)
            for values, roles in zip(args[count:], self.tensors.values(), strict=True)
            for role, originals in roles.items()
            for name, original in originals.items()
        }
        names = self.held.collect_parameters()
        parameters = {p: traced[id(p)] for p in names}
        with contextlib.ExitStack() as stack:
            steps = stack.enter_context(run_optimisers_by_ops())
            for module in self.held.modules.values():
                stack.enter_context(_hold_in_module(module, traced))
            for label, optimiser in self.held.optimisers.items():
                state = {
                    p: pytree.tree_map(lambda x: _get_traced_state(x, traced), dict(part))
                    for p, part in self.states[label].items()
                }
                stack.enter_context(_hold_in_optimiser(optimiser, parameters, state))
            result = self.function(*args[:count])
            used = {id(p) for optimiser in steps.stepped for p in _list_parameters(optimiser)}
        return result, {
            names[p]: new.grad.detach()
            for p, new in parameters.items()
            if new.grad is not None and id(new) not in used
        }


def _get_traced_state(value: Any, traced: Mapping[int, torch.Tensor]) -> Any:
    """Return the tensor for one of an optimiser's state; a number on the host is made anew."""
    if not isinstance(value, torch.Tensor):
        return value
    return traced[id(value)] if id(value) in traced else torch.zeros(value.shape, dtype=value.dtype)


def _make_like_original(traced: torch.Tensor, original: torch.Tensor) -> torch.Tensor:
    """Make a parameter of a traced tensor if the original is one."""
    if not isinstance(original, torch.nn.Parameter):
        return traced
    if getattr(original, "_post_accumulate_grad_hooks", None) or original._backward_hooks:
        raise HespasError(
            "a parameter has hooks, which cannot be traced in a function that captures its module",
            remedy="do what they do in the function, after backward",
        )
    parameter = torch.nn.Parameter(traced, requires_grad=original.requires_grad)
    parameter.__dict__.update(original.__dict__)
    return parameter
