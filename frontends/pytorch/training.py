"""A training step of a PyTorch module: loss, gradients, AdamW, as one function without mutation."""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.func import functional_call

Tree = dict[str, Any]


class training_step:
    """``step(state, *batch) -> (state, loss)``; ``step.state`` is what it starts from.

    ``loss(model, *batch)`` gives one number; ``model`` is called as the module is. The state is
    ``weights``, ``buffers``, AdamW's ``first`` and ``second`` moments, and ``count`` of steps.
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

    @property
    def state(self) -> Tree:
        weights = dict(self.module.named_parameters())
        return {
            "weights": weights,
            "buffers": dict(self.module.named_buffers()),
            "first": {key: torch.zeros_like(value) for key, value in weights.items()},
            "second": {key: torch.zeros_like(value) for key, value in weights.items()},
            "count": torch.zeros((), dtype=torch.float32, device="meta"),
        }

    def __call__(self, state: Tree, *batch: torch.Tensor) -> tuple[Tree, torch.Tensor]:
        weights = {k: v.detach().requires_grad_() for k, v in state["weights"].items()}
        buffers = {k: v.clone() for k, v in state["buffers"].items()}

        def model(*args: Any, **keywords: Any) -> Any:
            return functional_call(self.module, {**weights, **buffers}, args, keywords)

        with torch.enable_grad():
            loss = self.loss(model, *batch)
            gradients = torch.autograd.grad(loss, list(weights.values()))
        with torch.no_grad():
            new = self._updated(state, weights, gradients)
        return {**new, "buffers": buffers}, loss.detach()

    def _updated(self, state: Tree, weights: Tree, gradients: Any) -> Tree:
        """AdamW (Loshchilov and Hutter 2019, algorithm 2)."""
        count = state["count"] + 1
        b1, b2 = self.betas
        new: Tree = {"weights": {}, "first": {}, "second": {}, "count": count}
        for (key, weight), gradient in zip(weights.items(), gradients, strict=True):
            if isinstance(gradient, DTensor):  # summed over the devices that it is partial on
                gradient = gradient.redistribute(placements=weight.placements)
            first = b1 * state["first"][key] + (1 - b1) * gradient
            second = b2 * state["second"][key] + (1 - b2) * gradient * gradient
            scale = (second / (1 - b2**count)).sqrt() + self.epsilon
            step = first / (1 - b1**count) / scale + self.decay * weight
            new["weights"][key] = weight - self.rate * step
            new["first"][key], new["second"][key] = first, second
        return new
