"""The pytest plug-in: the fixture and marker ``hespas_budget``, and ``--hespas-update``.

pytest imports this module in every project that has hespas installed. It therefore imports nothing
else of hespas before a test asks for the fixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from hespas.tools.step_budget import StepBudget

NAME = "hespas_budget"
UPDATE = "--hespas-update"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flag that updates baselines."""
    parser.getgroup("hespas").addoption(
        UPDATE,
        action="store_true",
        help=f"write the baselines of {NAME} instead of checking programs against them",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and refuse updates by several processes at once."""
    config.addinivalue_line(
        "markers",
        f"{NAME}(**options): limits and options of {NAME}, which the calls of a test may override",
    )
    if config.getoption(UPDATE) and hasattr(config, "workerinput"):
        raise pytest.UsageError(f"{UPDATE} writes one file: run it without -n")


@pytest.fixture
def hespas_budget(request: pytest.FixtureRequest) -> StepBudget:
    """Check how long a program takes, and its memory and communication, against its baseline."""
    from hespas.tools.step_budget import StepBudget

    options: dict[str, object] = {}
    for marker in reversed([*request.node.iter_markers(NAME)]):
        options |= marker.kwargs
    name = request.node.nodeid.partition("::")[2]
    return StepBudget(request.path, name, bool(request.config.getoption(UPDATE)), options)
