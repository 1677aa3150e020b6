"""What every tool shares: error lines, exit codes, quiet pipes."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from hespas.support.errors import HespasError, UsageError

EXIT_ERROR, EXIT_USAGE, EXIT_INTERRUPT = 1, 2, 130

# What ``Operation.walk`` makes of a ^C that comes while the function it calls runs.
INTERRUPTED_WALK = re.compile(r"^Exception raised in callback:.*^KeyboardInterrupt", re.S | re.M)

MainFunction = Callable[[Sequence[str]], int]


def run_tool_main(main: MainFunction, argv: Sequence[str] | None = None) -> int:
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
        _discard_stdout()
        return EXIT_ERROR
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPT
    except RuntimeError as error:
        if INTERRUPTED_WALK.search(str(error)):
            print("interrupted", file=sys.stderr)
            return EXIT_INTERRUPT
        raise
    except MemoryError:
        print("error: out of memory", file=sys.stderr)
        return EXIT_ERROR
    except OSError as error:
        where = f"{error.filename}: " if error.filename else "<stdout>: "
        print(f"{where}error: {error.strerror or error}", file=sys.stderr)
        _discard_stdout()
        return EXIT_ERROR


def _discard_stdout() -> None:
    """Let what stdout still holds, and could not write, go nowhere at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
        return
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def script(main: MainFunction) -> NoReturn:
    """Run as a console script, skipping interpreter teardown: freeing a large module takes long."""
    gc.disable()  # there are no cycles to free, and walking a million live objects takes seconds
    _replace_closed_streams()
    code = run_tool_main(main)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


def _replace_closed_streams() -> None:
    """Put something that cannot be written in place of a stdout that was closed at the start.

    Else the first file that is opened would be taken for it. A closed stdin stays None.
    """
    for number, name, mode in ((1, "stdout", os.O_RDONLY), (2, "stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, mode)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115
