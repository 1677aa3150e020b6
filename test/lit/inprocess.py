"""A lit test format that runs the tools of hespas, and filecheck, in lit's worker."""

from __future__ import annotations

import os
import re

import lit.formats
import lit.Test
import lit.TestRunner
from support.tool_commands import needs_shell, run_line


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
        texts = [
            re.sub(r"%dbg\([^)]*\)|^\s*:\s*'[^']*';?", "", str(line)).strip() for line in lines
        ]
        if any(map(needs_shell, texts)):
            return super().execute(test, litConfig)
        for text in texts:
            problem = run_line(text)
            if problem:
                return lit.Test.Result(lit.Test.FAIL, f"RUN: {text}\n{problem}")
        return lit.Test.Result(lit.Test.PASS, "")
