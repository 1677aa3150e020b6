"""What every tool shares: error lines, exit codes, quiet pipes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from hespas.dialects.errors import HespasError, UsageError

EXIT_ERROR, EXIT_USAGE, EXIT_INTERRUPT = 1, 2, 130

Main = Callable[[Sequence[str]], int]


def entry(main: Main, argv: Sequence[str] | None = None) -> int:
    """Run ``main`` on the arguments; an error is one line on stderr and exit code 1, usage 2."""
    try:
        code = main(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return code
    except UsageError as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    except HespasError as error:
        print(error, file=sys.stderr)
        return EXIT_ERROR
    except BrokenPipeError:
        # The reader went away: let the interpreter's own flush at exit write to nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_ERROR
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPT
    except MemoryError:
        print("error: out of memory", file=sys.stderr)
        return EXIT_ERROR
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"{where}error: {error.strerror or error}", file=sys.stderr)
        return EXIT_ERROR


def write_whole(path: str, data: bytes) -> None:
    """Write a file so that it is there whole or not at all; devices and pipes directly."""
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        with open(target, "wb") as file:
            file.write(data)
        return
    temporary = f"{target}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            file.write(data)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def script(main: Main) -> NoReturn:
    """Run as a console script, skipping interpreter teardown: freeing a large module takes long."""
    code = entry(main)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
