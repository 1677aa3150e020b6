"""Cost rules in a Python file that a user names, without a package."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import ModuleType

from hespas.estimators.rules.registry import check_rules, replace_file_rules
from hespas.support.errors import HespasError, extract_first_line


def load_rule_file(path: str) -> None:
    """Use the cost rules of a Python file in this process from now on.

    The file defines ``RULES``, a ``CostRule`` or a list of them, as the entry point of a package
    does. If the file has been loaded before, its rules replace the older ones.

    Raises:
        HespasError: The file cannot be imported, has no rules, or has rules for ops that hespas, a
            package or another file has rules for.
    """
    try:
        source = Path(path).read_bytes()
        module = ModuleType(f"hespas_cost_rules_{hashlib.sha256(source).hexdigest()[:16]}")
        module.__file__ = path
        # An import would write __pycache__ into the folder of the user.
        exec(compile(source, path, "exec"), vars(module))
    except Exception as error:
        reason = f"{type(error).__name__}: {extract_first_line(str(error))}"
        raise HespasError(f"the cost rules cannot be imported: {reason}", where=path) from error
    try:
        rules = check_rules(getattr(module, "RULES", None))
    except ValueError as error:
        raise HespasError(str(error), where=path, remedy="correct the rule") from None
    if rules is None:
        raise HespasError(
            "the file defines no RULES, a CostRule or a list of them",
            where=path,
            remedy="write RULES = [CostRule(compute_work, ops=(...,))]",
        )
    replace_file_rules(path, rules)
