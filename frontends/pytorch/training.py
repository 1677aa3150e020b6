"""A training step of a PyTorch module as a function without mutation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.nn.utils.stateless import _reparametrize_module

Tree = dict[str, Any]


class TorchTrainingStep:
    """A function ``step(state, *batch) -> (state, loss)``; ``step.state`` is the initial state.

    ``loss(model, *batch)`` returns a scalar, and calls ``model`` as it would call the module. The
    state holds ``weights``, ``buffers``, AdamW's ``first`` and ``second`` moments, and the
    ``count`` of steps. Weights without a gradient have no moments; they and weights that the loss
    does not use stay unchanged.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        loss: Callable[..., torch.Tensor],
        *,
        rate: float = 3e-4,
        betas: tuple[float, float] = (0.9, 0.95),
        decay: float = 0.1,
        epsilon: float = 1e-8,
    ) -> None:
        self.module, self.loss = module, loss
        self.rate, self.betas, self.decay, self.epsilon = rate, betas, decay, epsilon

    def _get_trainable_weights(self) -> dict[str, torch.Tensor]:
        return {key: w for key, w in self.module.named_parameters() if w.requires_grad}

    @property
    def state(self) -> Tree:
        trained = self._get_trainable_weights()
        return {
            "weights": dict(self.module.named_parameters()),
            "buffers": dict(self.module.named_buffers()),
            "first": {key: torch.zeros_like(value) for key, value in trained.items()},
            "second": {key: torch.zeros_like(value) for key, value in trained.items()},
            "count": torch.zeros((), dtype=torch.float32, device="meta"),
        }

    def __call__(self, state: Tree, *batch: torch.Tensor) -> tuple[Tree, torch.Tensor]:
        weights = {k: v.detach() for k, v in state["weights"].items()}
        trained = {k: weights[k].requires_grad_() for k in self._get_trainable_weights()}
        buffers = {k: v.clone() for k, v in state["buffers"].items()}

        # The backward pass may run parts of the module again (torch.utils.checkpoint).
        state_of_module = _reparametrize_module(
            self.module, {**weights, **buffers}, tie_weights=True
        )
        with torch.enable_grad(), state_of_module:
            loss = self.loss(self.module, *batch)
            gradients = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
        with torch.no_grad():
            new = self._apply_adamw_update(state, dict(zip(trained, gradients, strict=True)))
        return {**new, "buffers": buffers}, loss.detach()

    def _apply_adamw_update(self, state: Tree, gradients: dict[str, torch.Tensor | None]) -> Tree:
        """Apply AdamW (Loshchilov and Hutter 2019, algorithm 2)."""
        count = state["count"] + 1
        b1, b2 = self.betas
        new: Tree = {key: dict(state[key]) for key in ("weights", "first", "second")}
        for key, gradient in gradients.items():
            if gradient is None:
                continue
            weight = state["weights"][key]
            if isinstance(gradient, DTensor):  # reduce partial sums
                gradient = gradient.redistribute(placements=weight.placements)
            first = b1 * state["first"][key] + (1 - b1) * gradient
            second = b2 * state["second"][key] + (1 - b2) * gradient * gradient
            scale = (second / (1 - b2**count)).sqrt() + self.epsilon
            step = first / (1 - b1**count) / scale + self.decay * weight
            new["weights"][key] = weight - self.rate * step
            new["first"][key], new["second"][key] = first, second
        return {**new, "count": count}
