"""A lit test format that runs ``[not] hespas-opt ARGS [2>&1] | filecheck ARGS`` in lit's worker."""

from __future__ import annotations

import os
import re

import lit.formats
import lit.Test
import lit.TestRunner
from support.tool_commands import parse_pipe, run_pipe


class InProcess(lit.formats.ShTest):
    """``ShTest`` that runs what it can without a shell."""

    def __init__(self) -> None:
        super().__init__(execute_external=False)

    def execute(self, test, litConfig):
        script = lit.TestRunner.parseIntegratedTestScript(test)
        if isinstance(script, lit.Test.Result):
            return script
        folder, base = lit.TestRunner.getTempPaths(test)
        os.makedirs(folder, exist_ok=True)
        substitutions = lit.TestRunner.getDefaultSubstitutions(test, folder, base)
        lines = lit.TestRunner.applySubstitutions(script, substitutions)
        plain = []
        for line in lines:
            text = re.sub(r"%dbg\([^)]*\)|^\s*:\s*'[^']*';?", "", str(line)).strip()
            stages = parse_pipe(text)
            if stages is None:
                return super().execute(test, litConfig)
            plain.append((text, stages))
        for text, stages in plain:
            problem = run_pipe(stages)
            if problem:
                return lit.Test.Result(lit.Test.FAIL, f"RUN: {text}\n{problem}")
        return lit.Test.Result(lit.Test.PASS, "")
