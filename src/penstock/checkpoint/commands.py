"""Commands in messages, which users copy into a shell."""

from __future__ import annotations

import re
import shlex


def command_line(*words: object) -> str:
    """A command with its arguments, quoted for a shell."""
    return shlex.join(map(str, words))


def checkpoint_command(name: str, checkpoint: object, *arguments: object) -> str:
    """A `penstock checkpoint` command on a checkpoint, quoted for a shell."""
    return command_line("penstock", "checkpoint", name, checkpoint, *arguments)


def undo_of(checkpoint: object, *, keep: bool = False) -> str:
    """The command that undoes an interrupted one, whose lock is still there in an object store.

    With `keep`, the command that accepts the checkpoint as it is. `checkpoint` is an absolute local
    path or the URI of a location in a store.
    """
    stopped = ["--stopped"] if re.match(r"\w+://", str(checkpoint)) else []
    kept = ["--keep"] if keep else []
    return checkpoint_command("undo", checkpoint, *kept, "--yes", *stopped)
