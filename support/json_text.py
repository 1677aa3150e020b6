"""Parsing of JSON that users and other tools write."""

from __future__ import annotations

import json
from typing import Any

from hespas.support.errors import HespasError


def parse_json(text: str | bytes, where: str) -> Any:
    """Parse a JSON text.

    Args:
        text: The text.
        where: The file or the key that holds it, for errors.

    Raises:
        HespasError: It is not JSON, is nested too deeply, or has a number of too many digits.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{where}:{error.lineno}:{error.colno}"
        raise HespasError(f"is not valid JSON: {error.msg}", where=place) from None
    except RecursionError:
        raise HespasError("is nested too deeply", where=where) from None
    except ValueError as error:  # more digits than Python converts, or bytes that are not UTF-8
        raise HespasError(f"is not valid JSON: {error}", where=where) from None
