"""Power limits that follow from the products of a machine, and from nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from hespas import configs
from hespas.estimators.calibrated.device_constants import DeviceConstants
from hespas.support.errors import HespasError
from hespas.workflows.calibration.fit_scores import estimate_measured_kernel
from hespas.workflows.calibration.measurement_tables import KernelMeasurement
from hespas.workflows.calibration.power_limits import infer_power_limit
from hespas.workflows.validation import case_systems

SPY = """
import json, sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
from hespas.workflows.calibration.power_limits import infer_published_limits
limits_w = dict(infer_published_limits())
ends = (".csv", ".xz", ".json", ".yml")
print(json.dumps([limits_w, sorted({name for name in opened if name.endswith(ends)})]))
"""


def make_products(node, limit_w):
    """Return products with the times that the constants give at a limit."""
    constants = DeviceConstants.from_node(replace(node, tdp_w=limit_w))
    products = []
    for size in (512, 4096, 8192, 16384):
        product = KernelMeasurement(
            "product.bf16_sustained",
            (1, size, size, size),
            2.0 * size**3,
            6.0 * size**2,
            1.0,
            False,
        )
        time_s = estimate_measured_kernel(constants, product).time_s
        products.append(replace(product, time_s=time_s))
    return products


def test_the_limit_of_a_variant_is_that_of_its_source_s_products():
    """No table of step times is opened on the way."""
    process = subprocess.run(
        [sys.executable, "-c", SPY], capture_output=True, text=True, check=True
    )
    limits_w, opened = json.loads(process.stdout)
    variant = configs.load_node("B200_180GB_720W")
    assert limits_w == {"B200_180GB TransformerEngine": pytest.approx(variant.tdp_w, rel=0.01)}
    assert any("second-sources.csv" in name for name in opened)
    step_times = re.compile(
        r"open_cases|measurements\.csv|training-(runs|cases)|validation/measured|/truth"
    )
    assert not [name for name in opened if step_times.search(name)]


@pytest.mark.parametrize("limit_w", [600.0, 850.0])
def test_the_limit_at_which_products_were_timed_is_found_again(limit_w):
    node = configs.load_node("B200_180GB")
    assert infer_power_limit(node, make_products(node, limit_w)) == pytest.approx(limit_w, abs=1)


def test_products_that_no_limit_explains_are_an_error():
    node = configs.load_node("B200_180GB")
    fast = [replace(p, time_s=0.5 * p.time_s) for p in make_products(node, 1000.0)]
    with pytest.raises(HespasError, match="no limit of B200_180GB below 1000 W explains"):
        infer_power_limit(node, fast)
    with pytest.raises(HespasError, match="no product takes 100 us"):
        infer_power_limit(node, make_products(node, 1000.0)[:1])
    other = configs.load_node("MI300X")
    with pytest.raises(HespasError, match="the energy of an operation is not known for MI300X"):
        infer_power_limit(other, make_products(node, 800.0))


def test_only_the_source_of_the_products_has_the_limit():
    source = "MooreThreads/SimuMax@4dcaae5 docs/summary.json"
    assert case_systems.find_node("B200_180GB", source) == "B200_180GB_720W"
    assert case_systems.find_node("NVIDIA B200 180GB", source) == "B200_180GB_720W"
    assert case_systems.find_node("B200_180GB", "NVIDIA/dgxc-benchmarking") == "B200_180GB"
    assert case_systems.find_node("H100_80GB_SXM", source) == "H100_80GB"
    assert "720 W, inferred" in case_systems.describe_inferred_limit("B200_180GB_720W")
    assert not case_systems.describe_inferred_limit("B200_180GB")
    system = case_systems.choose_case_system("B200_180GB_720W", 8, "")
    assert system.name == "HGX_B200_8"
