"""Making the files of the programs of stages, each once for all pipelines that have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hespas.support.errors import HespasError
from hespas.workflows.cells import Note, PoolOptions
from hespas.workflows.pipelines.stage_estimates import StageFiles, StagePart
from hespas.workflows.studies import study_programs
from hespas.workflows.studies.study_programs import StudyProgram

StagePrograms = Sequence[Mapping[StagePart, StudyProgram]]
"""The programs of each stage of a pipeline by their parts."""


def make_stage_files(
    pipelines: Sequence[StagePrograms], options: PoolOptions, note: Note
) -> list[list[StageFiles] | HespasError]:
    """Make the files of the programs of pipelines that do not exist yet.

    Returns:
        For each pipeline the files of its stages, or why one of them cannot be made.

    Raises:
        HespasError: The folder cannot be written, or JAX is not installed.
    """
    programs = {
        program.name_final_file(): program
        for stages in pipelines
        for stage in stages
        for program in stage.values()
    }
    files = study_programs.make_program_files([*programs.values()], options, note)
    paths = dict(zip(programs, files.paths, strict=True))
    return [_select_files(stages, paths, files.errors) for stages in pipelines]


def _select_files(
    stages: StagePrograms, paths: Mapping[str, str], errors: Mapping[str, HespasError]
) -> list[StageFiles] | HespasError:
    selected: list[StageFiles] = [
        {part: paths[program.name_final_file()] for part, program in stage.items()}
        for stage in stages
    ]
    failed = [path for files in selected for path in files.values() if path in errors]
    return errors[failed[0]] if failed else selected
