"""Run one command and return its exit code (README, "Exit codes").

Every import here costs each command time, above all a ``build`` with nothing to do.
"""

from __future__ import annotations

import codecs
import gc
import io
import os
import signal
import sys

from gpubuild import __version__

TYPE_CHECKING = False  # typing's own costs an import
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType
    from typing import Any, TextIO

    from gpubuild.cli.console import Console
    from gpubuild.cli.messages import Messages
    from gpubuild.errors import GpubuildError
    from gpubuild.settings import Settings

_ISSUES = "the project's issue tracker"
_STEP_FAILED, _USAGE, _INTERRUPTED = 1, 2, 130  # as in `errors`, which costs an import
_PLAIN = {"→": "->", "…": "...", "·": "*", "µ": "u"}  # for encodings without these characters


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv`` (default: the process's) and return its exit code."""
    if argv is None:
        try:
            return main(sys.argv[1:])
        finally:
            gc.freeze()  # skips the search for cycles when the interpreter ends: 3 % of a build
    _prepare_streams()
    write_error: OSError | None = None
    try:
        code = _answer(list(argv))
    except SystemExit as error:  # argparse ends `--help` like this
        code = int(error.code or 0)
    except KeyboardInterrupt:  # for example during imports: nothing to stop yet
        code = _INTERRUPTED
        _try(sys.stderr.write, "\ninterrupted\n")
    except OSError as error:
        code, write_error = 0, error
    if code == _INTERRUPTED:
        # CPython remembers an interrupt inside exec() of a text, which makes dataclasses, even when it was
        # caught, and then ends with SIGINT instead of this code. Another exec() clears that.
        exec("")  # noqa: S102
    # The interpreter itself ends with a traceback and code 120 when this fails.
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            write_error = write_error or error
            _discard_buffer(stream)
    return code if write_error is None else code or _report_write_error(write_error)


def _try(write: Callable[[Any], object], text: object) -> None:
    """Write if possible: where stderr is closed or full, the exit code still counts."""
    try:  # noqa: SIM105 - contextlib is slow to load
        write(text)
    except OSError:
        pass


def _answer(arguments: list[str]) -> int:
    """Run a command and return its exit code. Raises ``OSError`` when output cannot be written."""
    if arguments in (["--version"], ["-V"]):
        print(f"gpubuild {__version__}")
        return 0
    if len(arguments) > 1 and arguments[0] == "-C":
        try:
            os.chdir(arguments[1])
        except OSError as error:
            from gpubuild.support.text import visible

            _try(_write_error, f"error: cannot change to {visible(arguments[1])}: {error.strerror}\n")
            return _USAGE
        arguments = arguments[2:]
    from gpubuild import environment

    if environment.completes():
        from gpubuild.cli.completion import answer

        answer()
    if arguments[:1] == ["build"] and _nothing_to_do(arguments[1:]):
        return 0
    if arguments[:1] == ["compile"] and arguments == sys.argv[1:]:  # not in a caller's process
        _load_early()
    return _command(arguments)


def _load_early() -> None:
    """Let another process load MLIR while this one loads the command."""
    from gpubuild.execute.local import start_early

    try:  # noqa: SIM105 - contextlib is slow to load
        start_early(1)
    except OSError:
        pass  # reported when the first step begins


def _nothing_to_do(arguments: list[str]) -> bool:
    """Answer a ``build`` that has nothing to do, and return whether it was one."""
    from gpubuild.cli.quick import answer

    texts = answer(arguments)
    if texts is None:
        return False
    sys.stderr.write(texts[1])
    sys.stdout.write(texts[0])
    return True


def _command(arguments: list[str]) -> int:
    from gpubuild import environment
    from gpubuild.cli.console import Console
    from gpubuild.errors import GpubuildError
    from gpubuild.settings import Settings

    gc.set_threshold(50_000, 20, 50)  # a build makes many objects and little garbage: 5 % of its time
    invalid: GpubuildError | None = None
    try:
        settings = Settings.from_environ()
    except GpubuildError as error:
        settings, invalid = Settings(color=environment.color()), error
    messages: Messages | None = None
    if any(word.startswith("--message-format") for word in arguments):
        from gpubuild.cli.messages import requested

        messages = requested(arguments, sys.stderr.write)
    console = Console.standard(settings, messages=messages)
    code = _caught(arguments, console, settings, invalid)
    if messages is not None:
        try:
            messages.finish()
        except GpubuildError as error:
            _try(console.error, error)
            code = code or error.exit_code
    return code


def _caught(arguments: list[str], console: Console, settings: Settings, invalid: GpubuildError | None) -> int:
    """Run a command, and report the error that ends it."""
    from gpubuild.errors import EXIT_INTERRUPTED, EXIT_USAGE, GpubuildError

    previous = _interrupt_on_sigterm()
    try:
        return _run(arguments, console, settings, invalid)
    except KeyboardInterrupt:
        _try(console.note, "\ninterrupted")
        return EXIT_INTERRUPTED
    except GpubuildError as error:
        _try(console.error, error)
        return error.exit_code
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not _has_current_folder():
            console.note('error: the current folder does not exist\n  hint: change to another one: cd "$PWD"')
            return EXIT_USAGE
        from gpubuild.support.files import NO_ROOM

        if error.errno in NO_ROOM or isinstance(error, BrokenPipeError):
            raise
        return _internal(error, settings, console)
    except UnicodeEncodeError as error:
        encoding = sys.getfilesystemencoding()
        if encoding == "utf-8":
            return _internal(error, settings, console)
        console.note(
            f"error: this environment names files in {encoding}, which cannot encode {error.object}\n"
            "  hint: set PYTHONUTF8=1, or LC_ALL to a locale with UTF-8"
        )
        return EXIT_USAGE
    except Exception as error:
        return _internal(error, settings, console)
    finally:
        if previous is not None:
            signal.signal(signal.SIGTERM, previous)


def _run(arguments: list[str], console: Console, settings: Settings, invalid: GpubuildError | None) -> int:
    """Run a command. ``invalid`` is an error of the settings, which `--help` does not need."""
    from gpubuild import environment
    from gpubuild.cli.parser import parse
    from gpubuild.errors import GpubuildError, InterruptedBuildError, WorkspaceError
    from gpubuild.support.frozen import replace

    building = False
    try:
        options = parse(arguments)
        if invalid is not None:
            raise invalid
        options.settings = settings
        options.console = replace(console, quiet=options.quiet, verbose=options.verbose)
        for warning in environment.misspelt():
            options.console.warning(warning)
        file, parser = getattr(options, "file", None), getattr(options, "parser", None)
        if parser is not None and file is not None and file is parser.get_default("file"):
            from gpubuild.cli.quick import using

            if not options.quiet and (text := using(str(file))):
                options.console.note(text.rstrip())
        building = arguments[:1] == ["build"]
        try:
            code: int = options.command(options)
        except WorkspaceError as error:
            from gpubuild.cli import workspace

            code = workspace.run(arguments[0], options, error)
        return code
    except InterruptedBuildError:
        raise
    except GpubuildError as error:
        # A build writes its own document, which has more data.
        if "--json" in arguments and not building:
            from gpubuild.cli.json_document import describe, dump

            _try(console.print, dump({"schema": 1, "error": describe(error)}))
        raise


def _has_current_folder() -> bool:
    from pathlib import Path

    try:
        Path.cwd()
    except FileNotFoundError:  # another process removed or replaced it
        return False
    return True


def _report_write_error(error: OSError) -> int:
    """Report that output could not be written, and return the exit code."""
    if isinstance(error, BrokenPipeError):  # the reader has ended (`gpubuild … | head`)
        return 128 + signal.SIGPIPE
    from gpubuild.support.text import visible

    what = visible(str(error.filename or "the output"))
    _try(_write_error, f"error: cannot write {what}: {error.strerror}\n")
    return _STEP_FAILED


def _write_error(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def _discard_buffer(stream: TextIO) -> None:
    """Discard the buffer of a stream, which the interpreter would fail to write when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _prepare_streams() -> None:
    """Make printing safe: streams may be closed, or have an encoding without arrows."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - lives as long as the process
    if sys.stderr is None:
        sys.stderr = sys.stdout
    codecs.register_error("gpubuild", _encode_lossy)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="gpubuild")


def _encode_lossy(error: UnicodeError) -> tuple[str | bytes, int]:
    """Return a replacement for a character that the encoding lacks, and the byte of an undecodable path."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character = error.object[error.start]
    if "\udc80" <= character <= "\udcff":
        return bytes([ord(character) - 0xDC00]), error.start + 1
    plain = _PLAIN.get(character) or character.encode("ascii", "backslashreplace").decode()
    return plain, error.start + 1


def _interrupt_on_sigterm() -> signal._HANDLER:
    """Handle SIGTERM like Ctrl-C: stop all workers and clean up."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        return signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not the main thread: signals are the embedding program's
        return None


def _internal(error: Exception, settings: Settings, console: Console) -> int:
    from gpubuild.errors import EXIT_INTERNAL, GpubuildError

    if settings.debug:
        import traceback

        traceback.print_exception(error)
    console.note(
        f"internal error: {type(error).__name__}: {error}\n"
        f"  This is a bug in gpubuild {__version__}, not in your project.\n"
        f"  hint: set GPUBUILD_DEBUG=1 to see where it happened, and report it in {_ISSUES}"
    )
    if console.messages is not None:
        console.messages.error(GpubuildError(f"internal error: {type(error).__name__}: {error}"))
    return EXIT_INTERNAL
