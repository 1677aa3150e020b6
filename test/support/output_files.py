"""The files that a command has written to a folder, without hespas's own list of them."""

from __future__ import annotations

from pathlib import Path

from hespas.support.folder_manifest import MANIFEST


def read_output_files(folder: Path | str) -> dict[str, bytes]:
    """Return the contents of the files of a folder by name, in order."""
    paths = sorted(path for path in Path(folder).iterdir() if path.name != MANIFEST)
    return {path.name: path.read_bytes() for path in paths}


def claim_files(folder: Path | str, name: str) -> None:
    """Record all files of a folder as those of the set ``name`` that hespas has written."""
    from hespas.support.folder_manifest import FolderManifest, read_file_stamps

    manifest = FolderManifest({name: read_file_stamps(Path(folder))})
    Path(folder, MANIFEST).write_bytes(manifest.to_bytes())
