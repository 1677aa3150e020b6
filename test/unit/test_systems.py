"""System presets and ``hespas presets new``: each loads, is sourced, and simulates."""

from __future__ import annotations

import json

import pytest
from support.output_files import read_output_files
from support.traces import simulate_folder

from hespas import configs
from hespas.configs import system_families, system_files, system_layout
from hespas.simulators import astra_program
from hespas.simulators.embedded import run_event_simulation
from hespas.simulators.simulation_inputs import load_inputs
from hespas.simulators.simulation_options import SimulatorChoice
from hespas.support.errors import HespasError, UsageError
from hespas.tools.commands import presets
from hespas.workflows.studies import program_forms
from support import traces

SMALL = 64  # devices: larger presets are of the same kinds
VARIANTS = ["A100_SXM_40GB_4GPU/system_custom.json", "B200_180GB_8GPU_2/system_mininet.json"]


def names(most=10_000):
    return [
        name
        for name in configs.list_system_presets()
        if configs.load_system(name).device_count <= most
    ]


def workload(folder, devices):
    """One of each collective, a chain."""
    kinds = (traces.ALL_REDUCE, traces.ALL_GATHER, traces.REDUCE_SCATTER, traces.ALL_TO_ALL)
    nodes = [traces.comp(1)]
    nodes += [traces.coll(n, [n - 1], kind=kind) for n, kind in enumerate(kinds, 2)]
    return traces.save(folder, [nodes] * devices)


@pytest.mark.parametrize("name", [*names(SMALL), VARIANTS[1]])
def test_every_preset_simulates(name, tmp_path):
    system = configs.load_system(name)
    folder = workload(tmp_path / "w", system.device_count)
    simulator = "both" if astra_program.find_astra_sim() else "embedded"
    result = simulate_folder(folder, system, SimulatorChoice(simulator))
    assert len(result.devices) == system.device_count
    # What no network does better: an all-reduce of 1 MiB at the bandwidth of all dimensions.
    fastest = sum(system.bandwidth_gib_s) * max(system.npus_count)
    assert result.step_time_ns > 5000 + (1 << 20) / (fastest * 1.073741824)


@pytest.mark.parametrize("name", configs.list_system_presets())
def test_every_preset_is_sourced_and_complete(name):
    system = configs.load_system(name)
    provenance = configs.read_system_provenance(system)
    sources = {"topology", "npus_count", "bandwidth", "latency", "implementations", "local-mem-bw"}
    assert sources <= set(provenance["sources"])
    assert all(provenance["sources"].values()) and provenance["description"]
    assert system.name == name
    assert "remembered" not in json.dumps(provenance["sources"])
    assert system.endpoint_delay_ns >= 1 and system.local_mem_bw_gb_s > 0
    required = {f.alias for f in system_files.SystemFile.model_fields.values() if f.is_required()}
    assert required | {"active-chunks-per-dimension"} <= set(system.settings)
    for kind, algorithm in zip(system.topology, system.implementations["all-reduce"], strict=True):
        assert kind != "Switch" or len(system.topology) > 1 or algorithm == "ring"


@pytest.mark.parametrize("name", system_families.list_family_presets())
def test_a_family_member_can_be_written_out(name, tmp_path):
    presets.write_system_folder(tmp_path / name, configs.read_system_files(name))
    read = configs.load_system(str(tmp_path / name))
    system = configs.load_system(name)
    assert (read.render_network_text(), read.settings) == (
        system.render_network_text(),
        system.settings,
    )
    assert configs.read_system_provenance(read) == configs.read_system_provenance(system)
    for field in ("npus_count", "bandwidth_gib_s", "latency_ns", "implementations"):
        assert getattr(read, field) == getattr(system, field)


def test_current_systems_are_there():
    pods = [
        f"DGX_{gpu}_SuperPOD_{n}" for gpu in ("H100", "H200", "B200") for n in (2, 4, 8, 16, 32)
    ]
    clouds = ("A3_High", "A3_Mega", "A3_Ultra", "A4", "EC2_P5", "Grand_Teton_H100")
    pods += [f"{name}_{n}" for name in ("DGX_A100_SuperPOD", *clouds) for n in (2, 16, 128)]
    expected = ["HGX_H100_8", "HGX_H200_8", "HGX_B200_8", "GB200_NVL72", "MI300X_Platform_8", *pods]
    expected += ["TPUv4_4x4x4", "TPUv5p_8x8x8", "TPUv5e_16x16", "TPUv6e_16x16"]
    assert set(expected) <= set(configs.list_system_presets())
    pod = configs.load_system("DGX_H100_SuperPOD_64")
    assert (pod.npus_count, pod.device_count) == ((8, 64), 512)


def test_vendors_gigabytes_become_2_to_the_30():
    hgx = configs.load_system("HGX_H100_8")
    assert hgx.bandwidth_gib_s[0] * 2**30 == pytest.approx(450e9, rel=1e-8)
    assert "2**30" in configs.read_system_provenance(hgx)["units"]


def test_torus_axes_wrap_or_end():
    """Half a pod: 16 chips around, 8 in a line; below one cube nothing wraps."""
    half = configs.load_system("TPUv5e_8x16")
    assert half.topology == ("Mesh", "Ring") and len(set(half.bandwidth_gib_s)) == 1
    assert configs.load_system("TPUv5p_2x2x1").npus_count == (2, 2)
    mesh, torus = (configs.load_system(f"TPUv4_{size}") for size in ("2x4x4", "4x4x4"))
    assert mesh.topology == ("Mesh",) * 3 and torus.topology == ("Ring",) * 3
    assert torus.bandwidth_gib_s == mesh.bandwidth_gib_s


def test_all_to_all_through_a_switch_takes_what_the_link_takes(tmp_path):
    """Each of 8 sends 7/8 of its data at 450 GB/s, and waits for 7 messages' latency."""
    system = configs.load_system("HGX_H100_8")
    size = 64 << 20
    nodes = [traces.coll(1, kind=traces.ALL_TO_ALL, size=size)]
    folder = traces.save(tmp_path / "w", [nodes] * 8)
    took = simulate_folder(folder, system, SimulatorChoice("embedded")).step_time_ns
    ideal = size * 7 / 8 / 450
    assert ideal < took < ideal + 8 * (2 * 936.25 + 10)


def test_variants_of_a_preset():
    mininet = configs.load_system(VARIANTS[1])
    assert mininet.implementations["all-reduce"] == ("direct", "direct")
    assert configs.load_system("B200_180GB_8GPU_2").implementations["all-reduce"] == (
        "ring",
        "ring",
    )
    assert configs.load_system(VARIANTS[0]).custom == {"all-reduce": "all_reduce"}
    with pytest.raises(
        HespasError, match=r"system_other\.json: error: cannot read it: No such file"
    ):
        configs.load_system("A100_SXM_40GB_4GPU/system_other.json")
    with pytest.raises(UsageError, match="no system preset is named 'A100'"):
        configs.load_system("A100/system_custom.json")


FLAGS = ["--devices-per-host=8", "--hosts=4", "--link-bandwidth=450", "--nic-bandwidth=50"]


def new(folder, *flags):
    return presets.main(["new", str(folder), *flags])


def test_new_system(tmp_path, capsys):
    place = tmp_path / "mine"
    assert new(place, *FLAGS, "--node=H100_80GB", "--nic-latency=1500") == 0
    assert "32 devices, Switch 8 x Switch 4" in capsys.readouterr().out
    system = configs.load_system(str(place))
    assert system.npus_count == (8, 4)
    assert system.bandwidth_gib_s == (419.095159, 46.566129)
    assert system.latency_ns == (1000, 1500)
    assert system.local_mem_bw_gb_s == 3350
    assert system.implementations["all-reduce"] == ("ring", "ring")
    assert system.implementations["all-to-all"] == ("direct1", "direct1")
    assert list(read_output_files(place)) == [
        "fabric.json", "network.yml", "provenance.json", "remote_memory.json", "system.json"
    ]  # fmt: skip
    assert system.network_model == "flows"
    sources = configs.read_system_provenance(system)["sources"]
    assert sources["bandwidth"] == "given by flags"
    assert sources["local-mem-bw"] == "node H100_80GB"
    simulate_folder(workload(tmp_path / "w", 32), system, SimulatorChoice("embedded"))


def test_new_system_of_one_node_or_of_single_devices(tmp_path):
    memory = "--local-mem-bandwidth=2000"
    flags = ["--devices-per-host=4", "--link-bandwidth=100", "--topology=FullyConnected", memory]
    new(tmp_path / "a", *flags)
    one = configs.load_system(str(tmp_path / "a"))
    assert one.topology == ("FullyConnected",)
    assert one.implementations["all-to-all"] == ("direct",)
    new(tmp_path / "b", "--devices-per-host=1", "--hosts=16", "--nic-bandwidth=50",
        "--topology=Ring", "--algorithm=doubleBinaryTree", memory)  # fmt: skip
    between = configs.load_system(str(tmp_path / "b"))
    assert (between.topology, between.npus_count) == (("Ring",), (16,))
    assert between.implementations["all-reduce"] == ("doubleBinaryTree",)
    assert between.implementations["all-gather"] == ("ring",)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--devices-per-host=1"], "a system needs at least 2 devices"),
        (["--devices-per-host=8"], "--link-bandwidth is missing"),
        ([*FLAGS[:3]], "--nic-bandwidth is missing"),
        ([FLAGS[0], *FLAGS[2:]], "--nic-bandwidth has no effect: --hosts is 1"),
        ([*FLAGS, "--topology=Swich"], "has no value .Swich'; did you mean 'Switch'"),
        ([*FLAGS, "--algorithm=ring,ring,ring"], "has 3 names, but the system has 2 dimensions"),
        ([*FLAGS, "--node=H100"], "no node preset is named 'H100'"),
        ([*FLAGS, "--node=H100_80GB", "--local-mem-bandwidth=1"], "must be given once"),
        ([*FLAGS[1:]], "--devices-per-host"),
        ([*FLAGS, "--link-latency=-1"], "'-1' is negative"),
        ([*FLAGS, "--hosts=0"], "'0' is not a whole number of at least 1"),
        ([*FLAGS, "--link-bandwidth=inf"], "'inf' is not a number"),
        (["--devices-per-host=6", FLAGS[2], "--algorithm=halvingDoubling"], "a power of two"),
    ],
)
def test_new_system_errors(tmp_path, flags, message):
    place = tmp_path / "mine"
    node = [] if any("--node=" in flag for flag in flags) else ["--node=H100_80GB"]
    with pytest.raises(HespasError, match=message):
        new(place, *flags, *node)
    assert not place.exists()


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "system.json").write_text("mine")
    with pytest.raises(HespasError, match="the folder is not empty; name a new folder"):
        new(tmp_path, *FLAGS, "--node=H100_80GB")
    with pytest.raises(HespasError, match="is not empty"):
        presets.main(["systems", "HGX_H100_8", "--output", str(tmp_path)])
    assert [path.name for path in tmp_path.iterdir()] == ["system.json"]


def test_presets_can_be_printed_and_written(tmp_path, capsys):
    assert presets.main(["systems", "TPUv5e_4x4"]) == 0
    assert json.loads(capsys.readouterr().out)["npus_count"] == [4, 4]
    assert presets.main(["systems", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == configs.list_system_presets()
    place = tmp_path / "b200"
    assert presets.main(["systems", "B200_180GB_8GPU_2", "--output", str(place)]) == 0
    assert (place / "system_mininet.json").exists()
    with pytest.raises(UsageError, match="needs the name of a preset"):
        presets.main(["systems", "--output", str(place)])


def test_names_sort_by_their_numbers():
    pods = [name for name in configs.list_system_presets() if name.startswith("DGX_H100")]
    assert [name.rpartition("_")[2] for name in pods] == [str(2**n) for n in range(1, 10)]


def test_systems_of_a_node():
    """Those of its families and those named after it; not those of one whose name begins so."""
    of_h100 = configs.list_systems_of_node("H100_80GB")
    assert {"HGX_H100_8", "H100_80GB_4GPU", "DGX_H100_SuperPOD_512"} <= {*of_h100}
    assert not any("H200" in name for name in of_h100)
    assert "MI300X3D_4" not in configs.list_systems_of_node("MI300X")
    assert configs.list_systems_of_node("no_such_node") == []
    assert configs.list_systems_of_node("TPUv3_core") == ["TPUv3_2", "TPUv3_4_2"]
    assert configs.list_systems_of_node("TPUv3") == []  # those connect cores


def test_dimensions_are_checked():
    with pytest.raises(HespasError, match="dimension 1 has 1 devices"):
        system_layout.check_dimensions(
            [
                system_layout.SystemDimension("Ring", 2, 1, 1),
                system_layout.SystemDimension("Ring", 1, 1, 1),
            ]
        )


@pytest.mark.parametrize(
    ("node", "devices", "name"),
    [
        ("H100_80GB", 24, "DGX_H100_SuperPOD_3"),
        ("H100_80GB", 96, "DGX_H100_SuperPOD_12"),
        ("H100_80GB", 16, "DGX_H100_SuperPOD_2"),
        ("L4_24GB", 8, "L4_24GB_8GPU"),
        ("L40S_48GB", 3, "L40S_48GB_3GPU"),
        ("TPUv5p", 8, "TPUv5p_2x2x2"),
    ],
)
def test_sizes_between_follow_from_a_family(node, devices, name):
    assert program_forms.choose_system(node, devices, ()) == name
    system = configs.load_system(name)
    assert system.device_count == devices and system.name == name
    assert configs.read_system_provenance(system)["sources"]


@pytest.mark.parametrize(
    "name",
    ["DGX_H100_SuperPOD_1", "DGX_H100_SuperPOD_513", "DGX_H100_SuperPOD_03", "TPUv5p_2x2x3"],
)
def test_sizes_beyond_a_family_are_none(name):
    with pytest.raises(UsageError, match="no system preset is named"):
        configs.load_system(name)
    with pytest.raises(UsageError, match=r"has 12 devices \(they have 4, 8"):
        program_forms.choose_system("H100_80GB", 12, ())


@pytest.mark.parametrize("name", ["network.json", "network.yaml", "network.yml"])
def test_the_network_may_be_json(tmp_path, name):
    """ASTRA-sim's own examples have had ``network.json`` since 2026; the time is that with YAML."""
    keys = {"topology": ["Ring"], "npus_count": [8], "bandwidth": [50.0], "latency": [500.0]}
    folder = traces.system(tmp_path / "ring", [8], preferred_dataset_splits=1, local_mem_bw=50)
    (folder / "network.yml").unlink()
    lines = [f"{key}: [ {values[0]} ]" for key, values in keys.items()]
    (folder / name).write_text(json.dumps(keys) if "json" in name else "\n".join(lines))
    work = traces.save(tmp_path / "w", [[traces.coll(1, group=0)]] * 8)
    result = run_event_simulation(load_inputs(work, configs.load_system(str(folder))))
    assert result.step_time_ns == 96_365


def test_a_folder_without_a_network_names_its_files(tmp_path):
    with pytest.raises(HespasError, match=r"there is no network.yml or network.yaml or network.js"):
        configs.load_system(str(tmp_path))


def test_a_program_of_one_device_needs_no_system():
    system = configs.load_system("HGX_H100_8")
    for alone, remedy in (("leave it out", "leave it out"), ("", "use a system of that size: ")):
        with pytest.raises(
            HespasError, match=r"runs on 1 device, but system HGX_H100_8 has 8"
        ) as e:
            system.check_device_count(1, "it runs on", where="m.mlir", alone=alone)
        assert e.value.remedy.startswith(remedy)
