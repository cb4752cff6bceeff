"""A PostgreSQL server, from the binaries of the system."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.real.parts import MissingPartError
from tests.real.servers import LOOPBACK, Server, ending_with_parent, free_port

USER = "postgres"
_DEBIAN = Path("/usr/lib/postgresql")


class PostgresServer(Server):
    """A server with an empty database of the user `postgres`, for connections without password.

    It refuses to run as root; then it runs as the system's user `postgres`, with its data in a
    directory that this user owns.
    """

    name = "PostgreSQL"

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        super().__init__(directory / "server.log")
        self.port = free_port()
        # Not under `directory`: those of pytest can only be entered by their own user.
        self._data = Path(tempfile.mkdtemp(prefix="penstock-postgres-"))

    @property
    def url(self) -> str:
        """The address for psycopg."""
        return f"postgresql://{USER}@{LOOPBACK}:{self.port}/{USER}"

    @property
    def jdbc_url(self) -> str:
        """The address for Spark's option `url`."""
        return f"jdbc:postgresql://{LOOPBACK}:{self.port}/{USER}?user={USER}"

    def command(self) -> Sequence[str]:
        options = ["-h", LOOPBACK, "-p", str(self.port), "-k", "", "-c", "fsync=off"]
        return [*_as_postgres(), str(_binary("postgres")), "-D", str(self._data), *options]

    def is_ready(self) -> bool:
        command = [str(_binary("pg_isready")), "-q", "-h", LOOPBACK, "-p", str(self.port)]
        return subprocess.run(command, check=False).returncode == 0

    def start(self) -> None:
        if not (self._data / "PG_VERSION").exists():
            self._init()
        super().start()

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Stop the server and remove its data."""
        self.stop()
        shutil.rmtree(self._data, ignore_errors=True)

    def _init(self) -> None:
        if os.geteuid() == 0:
            shutil.chown(self._data, USER)
        command = [*_as_postgres(), str(_binary("initdb")), "-D", str(self._data), "-U", USER]
        command += ["-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"]
        subprocess.run(
            command, check=True, stdin=subprocess.DEVNULL, capture_output=True, cwd=self._data
        )


def _binary(name: str) -> Path:
    """A program of PostgreSQL: of the newest version of Debian's, or on the PATH."""
    versions = sorted(_DEBIAN.glob(f"*/bin/{name}"), key=lambda path: float(path.parts[-3]))
    found = str(versions[-1]) if versions else shutil.which(name)
    if found is None:
        raise MissingPartError(
            f"PostgreSQL is needed, and `{name}` is neither under {_DEBIAN} nor on the PATH. "
            "Install it, on Debian with: apt-get install postgresql"
        )
    return Path(found)


def _as_postgres() -> list[str]:
    """The beginning of a command that runs as a user whom PostgreSQL accepts."""
    if os.geteuid() != 0:
        return ending_with_parent()
    try:
        group = pwd.getpwnam(USER).pw_gid
    except KeyError:
        raise MissingPartError(
            f"PostgreSQL does not run as root, and there is no user {USER!r} to run it as. "
            "Run the tests as another user, or install Debian's package: "
            "apt-get install postgresql"
        ) from None
    return ending_with_parent("--reuid", USER, "--regid", str(group), "--clear-groups")
