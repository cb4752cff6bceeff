"""Runs a script in this process as `python script arguments...` runs it in a new one."""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import pkgutil
import runpy
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import SourceFileLoader, SourcelessFileLoader
from types import CodeType, ModuleType

_RUNNERS = (f"{__name__.rpartition('.')[0]}.", "runpy")
"""Modules whose frames are removed from tracebacks, since `python script` has no such frames."""


def run_as_main(
    script: str, arguments: Sequence[str] = (), module_path: Sequence[str] = ()
) -> None:
    """Run a script as the module `__main__`. Propagates the exceptions of the script.

    Sets `sys.argv`, `sys.path[0]` and the attributes of `__main__` as Python does, and adds
    `module_path` to `sys.path` as Python adds `PYTHONPATH`. In a process
    that was started by the `penstock` command they are kept, for threads and exit handlers that
    run after the script. In any other process they are restored.
    """
    with _script_environment(script, arguments, module_path):
        if pkgutil.get_importer(script) is not None:  # an archive with a module `__main__`
            runpy.run_path(script, run_name="__main__")
            return
        path = os.path.join(os.getcwd(), script)
        code = _read_code(path)
        sys.modules["__main__"] = module = _main_module(path, is_compiled=code is not None)
        exec(code or _compile(path), vars(module))


def report_uncaught(error: BaseException) -> None:
    """Print an error as the interpreter prints an uncaught exception, with `sys.excepthook`.

    The frames of Penstock and runpy are removed from its traceback. A SystemExit raised by
    `sys.excepthook` is propagated.
    """
    trace = error.__traceback__
    while trace is not None and _is_runner(str(trace.tb_frame.f_globals.get("__name__"))):
        trace = trace.tb_next
    error = error.with_traceback(trace)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    try:
        sys.excepthook(type(error), error, trace)
    except SystemExit:
        raise
    except BaseException as failure:
        print("Error in sys.excepthook:", file=sys.stderr)
        in_hook = failure.__traceback__.tb_next if failure.__traceback__ is not None else None
        sys.__excepthook__(type(failure), failure.with_traceback(in_hook), in_hook)
        print("\nOriginal exception was:", file=sys.stderr)
        sys.__excepthook__(type(error), error, trace)


def _is_runner(module: str) -> bool:
    return module.startswith(_RUNNERS)


def _read_code(path: str) -> CodeType | None:
    """The code in a bytecode file; None if it is not one."""
    with io.open_code(path) as file:
        code: CodeType | None = pkgutil.read_code(file)
        return code


def _compile(path: str) -> CodeType:
    with io.open_code(path) as file:
        code: CodeType = compile(file.read(), path, "exec", dont_inherit=True)
        return code


def _main_module(path: str, *, is_compiled: bool) -> ModuleType:
    loader = SourcelessFileLoader if is_compiled else SourceFileLoader
    module = ModuleType("__main__")
    vars(module).update(
        __loader__=loader("__main__", path),
        __annotations__={},
        __builtins__=builtins,
        __file__=path,
        __cached__=None,
    )
    return module


@contextlib.contextmanager
def _script_environment(
    script: str, arguments: Sequence[str], module_path: Sequence[str]
) -> Iterator[None]:
    is_own = _is_own_process()
    argv, search_path, main, hook = (
        sys.argv[:],
        sys.path[:],
        sys.modules["__main__"],
        sys.excepthook,
    )
    sys.argv = [script, *arguments]
    if sys.flags.safe_path:
        sys.path[:0] = module_path
    else:
        # In a process of the `penstock` command, sys.path[0] is the directory of that command.
        sys.path[: 1 if is_own else 0] = [os.path.dirname(os.path.realpath(script)), *module_path]
    sys.excepthook = sys.__excepthook__  # typer has replaced it
    try:
        yield
    finally:
        if not is_own:
            sys.argv, sys.path[:], sys.excepthook = argv, search_path, hook
            sys.modules["__main__"] = main


def _is_own_process() -> bool:
    """Whether this interpreter was started as `penstock` or `python -m penstock`."""
    main = sys.modules["__main__"]
    if main.__spec__ is not None:
        return main.__spec__.name.partition(".")[0] == "penstock"
    return os.path.basename(getattr(main, "__file__", None) or "") == "penstock"
