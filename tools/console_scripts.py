"""Error lines, exit codes and closed streams of the command-line tools."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from hespas.support import deferred_numpy, supervised_process
from hespas.support.errors import (
    OUT_OF_FILES,
    HespasError,
    UsageError,
    is_encoding_error,
    is_interrupted_walk,
)
from hespas.support.terminal_text import EscapingStream

EXIT_ERROR, EXIT_USAGE = 1, 2
EXIT_SIGNAL = 128  # plus the number of the signal
# What writing to a stream fails with; an error without a file may come from elsewhere too.
STDOUT_ERRORS = {errno.ENOSPC, errno.EIO, errno.EBADF, errno.EFBIG, errno.EDQUOT, errno.ENXIO}
SHOWN_AT_ONCE = {"-h", "--help", "--version"}

# Errors whose frames refer to modules, and modules: they are not freed before the process ends.
_kept_objects: list[object] = []
_exits_at_once = False

MainFunction = Callable[[Sequence[str]], int]


def run_tool_main(main: MainFunction, argv: Sequence[str] | None = None) -> int:
    """Run ``main`` and report its errors as one line on stderr.

    Args:
        main: The tool; it returns its exit code.
        argv: The arguments; by default those of the process.

    Returns:
        The exit code of ``main``; 2 after a usage error, 1 after another error, 128 plus the number
        of the signal after an interruption: 130 after ^C.
    """
    with _escape_output():
        return _run_and_report(main, list(sys.argv[1:] if argv is None else argv))


@contextlib.contextmanager
def _escape_output() -> Iterator[None]:
    """Escape control characters in what is printed, since names in programs may hold them."""
    plain_streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (EscapingStream(stream) for stream in plain_streams)  # type: ignore[assignment]
    try:
        yield
    finally:
        sys.stdout, sys.stderr = plain_streams


def _run_and_report(main: MainFunction, argv: list[str]) -> int:
    try:
        code = main(argv)
        sys.stdout.flush()
        return code
    except HespasError as error:
        keep_until_exit(error)
        print(error, file=sys.stderr)
        return EXIT_USAGE if isinstance(error, UsageError) else EXIT_ERROR
    except MemoryError:
        print("error: out of memory", file=sys.stderr)
        return EXIT_ERROR
    except OSError as error:
        return _report_os_error(error)
    except (KeyboardInterrupt, RuntimeError) as error:
        if isinstance(error, RuntimeError) and is_encoding_error(error):
            print("error: a name in the program is not UTF-8 text", file=sys.stderr)
            return EXIT_ERROR
        if isinstance(error, RuntimeError) and not is_interrupted_walk(error):
            raise
        number = supervised_process.get_interrupt_signal()
        print(supervised_process.INTERRUPTS[number], file=sys.stderr)
        return EXIT_SIGNAL + number
    except BaseException as error:  # not an Exception: SystemExit, most of all
        place = _find_raising_place(error)
        if isinstance(error, Exception) or (isinstance(error, SystemExit) and place is None):
            raise
        reason = f"{type(error).__name__}: {error}".rstrip(": ")
        print(
            f"{place}: error: this code ended hespas with {reason}; correct or uninstall its "
            "package",
            file=sys.stderr,
        )
        return EXIT_ERROR


def keep_until_exit(*objects: object) -> None:
    """Keep objects until the process of a tool ends without freeing them; see ``script``."""
    if _exits_at_once:
        _kept_objects.extend(objects)


def _find_raising_place(error: BaseException) -> str | None:
    """Return the line that raised; None for argparse, which exits after --help."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or os.path.basename(frames[-1].filename) == "argparse.py":
        return None
    return f"{frames[-1].filename}:{frames[-1].lineno}"


def _report_os_error(error: OSError) -> int:
    """Report a failed file or stream; a closed pipe is no error to report."""
    if error.errno in OUT_OF_FILES:
        print(
            "error: too many open files; allow more, such as ulimit -n 256, or use fewer --jobs",
            file=sys.stderr,
        )
    elif not isinstance(error, BrokenPipeError):
        stream = "<stdout>" if error.errno in STDOUT_ERRORS else ""
        where = str(error.filename or stream)
        print(
            f"{where}{': ' if where else ''}error: {error.strerror or error}",
            file=sys.stderr,
        )
    _discard_stdout()
    return EXIT_ERROR


def _discard_stdout() -> None:
    """Flush stdout; if that fails, let the interpreter's flush at exit write to /dev/null."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
        return
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def script(main: MainFunction) -> NoReturn:
    """Run a tool under a supervisor, and exit with its exit code."""
    _replace_closed_streams()
    if not SHOWN_AT_ONCE.intersection(sys.argv):
        from hespas.tools import supervisor

        try:
            supervised = supervisor.can_supervise()
        except UsageError as error:
            print(error, file=sys.stderr)
            os._exit(EXIT_USAGE)
        if supervised:
            os._exit(supervisor.run_supervised(lambda: _run_tool_and_exit(main)))
    supervised_process.handle_interrupts()
    _run_tool_and_exit(main)


def _run_tool_and_exit(main: MainFunction) -> NoReturn:
    """Run a tool and exit without interpreter teardown.

    Freeing a large module takes long, and freeing a damaged one may end the process.
    """
    global _exits_at_once
    _exits_at_once = True
    deferred_numpy.defer_numpy()
    gc.disable()  # there are no cycles to free, and a collection of a million objects takes seconds
    code = run_tool_main(main)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    supervised_process.record_finished()
    os._exit(code)


def _replace_closed_streams() -> None:
    """Replace a stdout or stderr that is closed at the start.

    Otherwise the next file that is opened would get its descriptor, and output would be written to
    that file. Writing to the replaced stdout fails; a closed stdin remains None.
    """
    for number, name, mode in ((1, "stdout", os.O_RDONLY), (2, "stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, mode)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115
