"""Which extras of hespas are installed, and why one installs nothing."""

from __future__ import annotations

import json
import sys

import pytest

from hespas.support import installed_extras
from hespas.support.installed_extras import ExtraState
from hespas.tools.commands import measure

REQUIREMENTS = [
    "numpy>=2.0",
    'numpy>=2; extra == "here"',
    'no-such-package<2,>=1; extra == "missing"',
    'hespas[here]; extra == "new"',
    'hespas[here,missing]; extra == "alias"',
    'no-such-package>=0.2; python_version >= "3.99" and extra == "new"',
    'numpy>=0.2; python_version < "3.99" and extra == "split"',
    'no-such-package>=1; python_version >= "3.99" and extra == "split"',
    'no-such-package; (sys_platform == "plan9" and python_version >= "3.5") and extra == "other"',
    'no-such-package; extra == "dev"',
]


@pytest.fixture
def states(monkeypatch):
    monkeypatch.setattr(installed_extras, "_read_requirements", lambda: REQUIREMENTS)
    return {state.name: state for state in installed_extras.examine_extras()}


def test_the_state_of_each_extra(states):
    assert states == {
        "alias": ExtraState("alias", ("no-such-package",)),
        "here": ExtraState("here"),
        "missing": ExtraState("missing", ("no-such-package",)),
        "new": ExtraState("new", needs="Python 3.99 or later"),
        "other": ExtraState("other", needs="plan9"),
        "split": ExtraState("split"),
    }
    assert states["missing"].remedy == "pip install 'hespas[missing]'"
    major, minor = sys.version_info[:2]
    assert states["new"].problem == (
        "hespas[new] needs Python 3.99 or later, and installs nothing in "
        f"Python {major}.{minor} on {sys.platform}"
    )
    assert states["new"].remedy.startswith("make an environment with Python 3.99 or later")
    assert not states["here"].problem and not states["here"].remedy


def test_the_requirements_are_those_of_the_distribution():
    """MaxText's releases need Python 3.12."""
    names = {state.name for state in installed_extras.examine_extras()}
    assert {"jax", "gpu-compiler", "iree", "zigzag", "maxtext", "torch"} <= names
    needs = installed_extras.examine_extra("maxtext").needs
    assert needs == ("" if sys.version_info >= (3, 12) else "Python 3.12 or later")


@pytest.mark.slow
def test_the_doctor_lists_extras_and_simulators(capsys):
    assert measure.main(["doctor", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    for name in ("cocossim", "onnxim", "accelsim", "astra-sim"):
        assert rows[name]["source"] == "build"
    for name in ("zigzag", "iree", "xla", "scalesim", "hespas[maxtext]", "hespas[jax]"):
        assert rows[name]["source"] == "pip"
    assert measure.main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "Extras, by pip" in printed and "github.com/astra-sim/astra-sim" in printed
