"""Build the sdist and from it the wheel, install the wheel in an empty environment, and run it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHECK = """
from hespas import configs, passes, frontends
from hespas.dialects.mlir import make_context
import hespas, pathlib
place = pathlib.Path(hespas.__file__).parent
assert 'site-packages' in str(place), place
assert (place / 'py.typed').exists()
assert len(configs.list_node_presets()) > 20 and len(configs.list_system_presets()) > 20
assert len(configs.list_schema_names()) > 5
for name in configs.list_schema_names(): configs.read_schema_text(name)
for name in configs.list_node_presets(): configs.load_node(name)
for name in configs.list_system_presets(): configs.load_system(name)
for name in configs.list_node_presets():
    assert (place / f'configs/nodes/{name}/roofline/config.json').is_file(), name
for method in ('xla', 'iree'):
    assert (place / f'configs/nodes/profiling/{method}/config.json').is_file(), method
assert (place / 'configs/nodes/TPUv3/cocossim/config.json').is_file()
assert len([*place.glob('configs/zigzag/*/*.yml')]) == 3
folders = [*place.glob('configs/systems/*/astra-sim')]
assert len(folders) == 43, len(folders)
for name in ('network.yml', 'system.json', 'remote_memory.json'):
    assert all((folder / name).is_file() for folder in folders), name
from hespas.tools.report.page_frame import render_page
import hespas.plugin
for module in (hespas, hespas.plugin):
    for name in module.__all__: getattr(module, name)
assert b"<script>" in render_page("it", "has its style and script", [])
"""


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command without the caller's ``PYTHONPATH``; returns what it printed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
        wheel = next(folder.glob("*.whl"))
        assert list(folder.glob("*.tar.gz")), "no sdist"
        venv.create(folder / "env", symlinks=True)
        python = folder / "env" / "bin" / "python"
        # This environment's pip installs into the empty one, and compiles nothing that is not used.
        pip = (
            sys.executable,
            "-m",
            "pip",
            "--python",
            python,
            "install",
            "--quiet",
            "--no-compile",
        )
        run(*pip, wheel, cwd=folder)
        run(python, "-c", CHECK, cwd=folder)
        example = ROOT / "docs" / "examples" / "llama3-100m-opt-a100.mlir.xz"
        bin_ = folder / "env" / "bin"
        run(
            bin_ / "hespas-opt", example, "--split-linear", "--roofline-annotate=node=H100_80GB",
            f"--emit-chakra=output={folder / 'out'}", "-o", folder / "out.mlir", cwd=folder,
        )  # fmt: skip
        run(bin_ / "hespas", "trace", "check", folder / "out", cwd=folder)
        system = ("--system", "A100_SXM_40GB_4GPU")
        run(bin_ / "hespas", "simulate", folder / "out", *system, cwd=folder)
        published = ("--mlir_file", example, "--output", folder / "published")
        for config in ("A100_SXM_40GB", "configs/nodes/A100_SXM_40GB/roofline/config.json"):
            run(bin_ / "hespas_chakra_gen", config, *published, cwd=folder)
            run(python, "-m", "hespas.hespas_chakra_gen", config, *published, cwd=folder)
        for tool in ("hespas_chakra_gen", "hespas_mlir_splitter", "hespas_mlir_analyzer"):
            run(bin_ / tool, "--help", cwd=folder)
        print(f"wheel: {wheel.name} installs and runs")


if __name__ == "__main__":
    main()
