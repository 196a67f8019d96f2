# SPDX-License-Identifier: MIT
"""The command line: ``portamem demo``, ``info``, ``conformance``, ``replay``; and where C++ programs find portamem."""

from __future__ import annotations

import argparse
import errno
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import portamem
from portamem import _choice
from portamem._console import give_up_stdout, prepare_streams, say
from portamem._sizes import parse_size
from portamem.conformance.harness.options import add_arguments
from portamem.replay.options import add_arguments as add_replay_arguments

OK, WRONG, UNUSABLE, INTERRUPTED = 0, 1, 2, 130

_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit status: 0 right, 1 wrong, 2 it could not start or write, 130 interrupted.

    What goes wrong is one line on standard error. PORTAMEM_TRACEBACK=1 adds where that was.
    """
    try:
        prepare_streams()
        return _run(arguments)
    except KeyboardInterrupt:
        say("interrupted")
        give_up_stdout()
        return INTERRUPTED
    except BrokenPipeError:
        give_up_stdout()
        return WRONG
    except (OSError, ValueError) as error:
        give_up_stdout()
        return _unusable(_in_words(error), error)
    except Exception as error:
        return _unusable(f"{type(error).__name__}: {error} (PORTAMEM_TRACEBACK=1 says where)", error)


def _run(arguments: Sequence[str] | None) -> int:
    commands = {"demo": _demo, "info": _info, "conformance": _conformance, "replay": _replay}
    try:
        options = _parser().parse_args(arguments)
    except SystemExit:
        sys.stdout.flush()  # writes the text of --version or --help
        raise
    status = commands[options.command](options)
    sys.stdout.flush()
    return status


def _parser() -> argparse.ArgumentParser:
    about = "One memory API for NVIDIA GPUs, AMD GPUs and the CPU."
    parser = _Parser(prog="portamem", description=about)
    parser.add_argument("--version", action="version", version=f"portamem {portamem.__version__}")
    cmake_dir = "print the folder of portamem-config.cmake, for CMake's portamem_DIR"
    include_dir = "print the folder for a C++ compiler's include path"
    parser.add_argument("--cmake-dir", action=_PrintPath, of=portamem.get_cmake_dir, help=cmake_dir)
    parser.add_argument("--include-dir", action=_PrintPath, of=portamem.get_include, help=include_dir)
    commands = parser.add_subparsers(dest="command", required=True)

    demo = commands.add_parser("demo", help="send bytes through every kind of memory and verify each of them")
    demo.add_argument("file", nargs="?", metavar="FILE", help="the bytes to send (made up where none is given)")
    demo.add_argument("--backend", choices=("auto", "cuda", "hip", "host"), help="default: PORTAMEM_BACKEND, or auto")
    demo.add_argument("--size", type=_size, metavar="N", help='bytes to make up (default "64 MiB")')
    demo.add_argument("--source", action="store_true", help="print the source of the demo's legs instead")

    info = commands.add_parser("info", help="what is built and loaded, which devices there are, what stands in the way")
    info.add_argument("--json", action="store_true", help="everything, as JSON")
    info.add_argument("--memory", action="store_true", help="figures of memory too: creates contexts on the devices")
    info.add_argument("--probe", action="store_true", help="try what no runtime tells: takes some MiB for a moment")

    conformance = commands.add_parser("conformance", help="show here, clause by clause, that the contract is kept")
    add_arguments(conformance)

    replay = commands.add_parser("replay", help="run the allocations of a log again, against any resource")
    add_replay_arguments(replay)
    return parser


class _Parser(argparse.ArgumentParser):
    """Says so where --version or --help cannot be written."""

    def _print_message(self, message: str, file: Any = None) -> None:
        if file is sys.stdout:
            file.write(message)
        else:
            super()._print_message(message, file)


class _PrintPath(argparse.Action):
    """Prints a path and nothing else, for use in another command line; exits as ``--version`` does."""

    def __init__(self, option_strings: list[str], dest: str, *, of: Callable[[], str], help: str) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help=help)
        self._of = of

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        try:
            print(self._of())
        except FileNotFoundError as error:
            parser.exit(WRONG, f"portamem: {error}\n")
        parser.exit(OK)


def _size(text: str) -> int:
    try:
        nbytes = parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if nbytes == 0:
        raise argparse.ArgumentTypeError("there is nothing to send in 0 bytes")
    return nbytes


def _demo(options: argparse.Namespace) -> int:
    from portamem import demo
    from portamem.demo.data import FileData, GeneratedData

    if options.source:
        print(demo.source(), end="")
        return OK
    if options.file is not None and options.size is not None:
        return _unusable("--size is for made-up bytes, and a FILE has its own size")
    try:
        data = GeneratedData(options.size or 64 << 20) if options.file is None else FileData(options.file)
        _choice.use(options.backend)
    except (OSError, ValueError) as error:
        return _unusable(str(error))
    except portamem.BackendUnavailableError as error:
        say(str(error))
        return WRONG
    return OK if demo.run(data) else WRONG


def _info(options: argparse.Namespace) -> int:
    from portamem import info

    found = info.collect(memory=options.memory, probe=options.probe)
    print(json.dumps(found, indent=2) if options.json else info.report(found))
    try:
        unmet = _choice.unmet_requirement({name: state["reason"] is None for name, state in found["backends"].items()})
    except ValueError as error:
        return _unusable(str(error))
    if unmet:
        say(unmet)
    return WRONG if unmet else OK


def _conformance(options: argparse.Namespace) -> int:
    from portamem.conformance.harness import command

    return _told(command.main, options)


def _replay(options: argparse.Namespace) -> int:
    from portamem.replay import command

    return _told(command.main, options)


def _told(main: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    """Runs a command; a backend that is not there is told in words."""
    try:
        return main(options)
    except portamem.BackendUnavailableError as error:
        say(str(error))
        return WRONG


def _in_words(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is None and error.errno in _WRITING:
        return f"the output cannot be written: {error.strerror}"
    return str(error)


def _unusable(why: str, error: BaseException | None = None) -> int:
    if error is not None and os.environ.get("PORTAMEM_TRACEBACK") == "1":
        traceback.print_exception(error)
    say(why)
    return UNUSABLE
