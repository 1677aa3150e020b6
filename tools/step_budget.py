"""What the fixture ``hespas_budget`` does: estimate a program and compare it with its baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hespas.support.errors import HespasError
from hespas.workflows import api
from hespas.workflows.gate.budget_check import (
    BudgetLimits,
    check_equal_settings,
    find_violations,
    parse_growth_limit,
    read_baseline,
    write_baseline,
)
from hespas.workflows.gate.step_comparison import StepComparison, StepProfile, profile_result

DEFAULT_GROWTHS = {"step": "1%+band", "memory": "1%", "exposed": "1%"}


@dataclass(frozen=True)
class StepBudget:
    """Checks programs against their baselines.

    Attributes:
        test_file: The file of the test. Its baselines are in ``NAME.budgets.json`` beside it.
        test_name: The name of the test, which is the name of its baseline.
        is_update: Whether to write the baseline instead.
        options: The limits and options of the test's markers.
    """

    test_file: Path
    test_name: str
    is_update: bool
    options: Mapping[str, Any]

    @property
    def baseline_file(self) -> Path:
        """The file of the baselines."""
        return self.test_file.with_suffix(".budgets.json")

    def __call__(self, program: Any, *args: Any, name: str = "", **options: Any) -> StepProfile:
        """Estimate a program, and fail the test if it is worse than its baseline.

        Args:
            program: See `hespas.estimate`: a JAX function, a file, or a module.
            *args: The arguments of the function.
            name: Tells several programs of one test apart.
            **options: ``target``, ``system`` and other options of `hespas.estimate`, and limits:
                ``step_growth`` (default ``1%+band``), ``memory_growth`` and ``exposed_growth``
                (``1%``), None for no limit. They override those of the marker.

        Returns:
            The profile of the program.

        Raises:
            HespasError: The program cannot be estimated.
        """
        options = {**self.options, **options}
        growths = {
            figure: options.pop(f"{figure}_growth")
            for figure in DEFAULT_GROWTHS
            if f"{figure}_growth" in options
        }
        baseline_name = f"{self.test_name} {name}".rstrip()
        profile = profile_result(api.estimate(program, *args, **options).to_run_result())
        if self.is_update:
            write_baseline(self.baseline_file, baseline_name, profile)
            return profile
        texts = self._find_problems(baseline_name, profile, growths)
        if texts:
            pytest.fail("\n".join(f"{baseline_name}: {text}" for text in texts), pytrace=False)
        return profile

    def _find_problems(
        self, name: str, profile: StepProfile, growths: Mapping[str, Any]
    ) -> list[str]:
        """Describe what is worse than in the baseline by more than the limits, or wrong with it."""
        try:
            baseline = read_baseline(self.baseline_file, name)
            if baseline is None:
                remedy = "write it with pytest --hespas-update"
                return [f"there is no baseline in {self.baseline_file.name}; {remedy}"]
            check_equal_settings(baseline, profile)
            limits = _parse_limits({**_select_default_growths(baseline), **growths})
            comparison = StepComparison(baseline, profile)
            return [v.text for v in find_violations(comparison, limits)]
        except HespasError as error:
            return [str(error)]


def _select_default_growths(baseline: StepProfile) -> dict[str, str]:
    """Return the default limits of the figures that a baseline has."""
    lacking = set()
    if baseline.exposed_comm_s is None:
        lacking.add("exposed")
    if baseline.memory is None:
        lacking.add("memory")
    return {figure: text for figure, text in DEFAULT_GROWTHS.items() if figure not in lacking}


def _parse_limits(growths: Mapping[str, Any]) -> BudgetLimits:
    parsed = {
        figure: parse_growth_limit(growth, allows_band=figure == "step")
        for figure, growth in growths.items()
        if growth is not None
    }
    return BudgetLimits(**parsed)
