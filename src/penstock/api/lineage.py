"""Reports the lineage of the queries of this process with OpenLineage."""

from __future__ import annotations

import atexit
import logging
import os
import time
from typing import TYPE_CHECKING, Any

from penstock.api.extras import import_extra
from penstock.api.process import PROCESS
from penstock.api.reporting import Reporting
from penstock.errors import EnvironmentProblemError
from penstock.redaction import DEFAULT_REDACTOR
from penstock.version import VERSION

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient

    from penstock.observe.lineage import LineageEvents

_logger = logging.getLogger(__name__)

_NAMESPACE = "OPENLINEAGE_NAMESPACE"
_LAST_EVENTS_SECONDS = 10.0
_LEAST_SECONDS = 0.1


class Lineage(Reporting):
    """The reporting that `lineage` began. Also a context manager, which ends it."""

    def __init__(self, events: LineageEvents, client: Any, *, is_own: bool) -> None:
        self._events = events
        self._client = client
        self._is_own = is_own
        atexit.register(self.stop)

    def stop(self) -> None:
        """Send no events of queries that are started from now on, nor further ones of the others.

        Events that are waiting are sent, for up to ten seconds in all. It is called at the end of
        the process.
        """
        deadline = time.monotonic() + _LAST_EVENTS_SECONDS
        atexit.unregister(self.stop)
        PROCESS.remove_observer(self._events)
        if not self._events.close(_LAST_EVENTS_SECONDS):
            _logger.warning(
                "Some OpenLineage events were not sent within %g seconds and are lost.",
                _LAST_EVENTS_SECONDS,
            )
        elif self._is_own:
            # The transports for Kafka and for asynchronous HTTP have a queue of their own.
            self._client.close(max(deadline - time.monotonic(), _LEAST_SECONDS))


def lineage(client: OpenLineageClient | None = None, *, namespace: str | None = None) -> Lineage:
    """Send OpenLineage events of the queries that are started from now on.

    For each run of a query a START, a RUNNING for each batch, with the datasets that it has read
    and written and their numbers of rows, and at the end COMPLETE, or FAIL with the error. The job
    is the name of the query, or its id, in `namespace`; by default in that of the environment
    variable `OPENLINEAGE_NAMESPACE`, or `default`.

    The events go to `client`; by default to one that is configured as OpenLineage documents it: by
    `OPENLINEAGE_URL`, `openlineage.yml` and so on. They are sent by a thread of their own, and a
    failure is only logged. Call `stop` of the result, or use it as a context manager, to end it.
    Raises EnvironmentProblemError without the extra, `pip install 'penstock[openlineage]'`, and if
    the configuration of the client is invalid.

        with penstock.lineage():
            query = penstock.write_stream(df).format("noop").start()
            query.awaitTermination()
    """
    events = _import("penstock.observe.lineage")
    used = client or _configured_client()
    jobs = namespace or os.environ.get(_NAMESPACE) or "default"
    made: LineageEvents = events.LineageEvents(used, jobs, VERSION)
    PROCESS.add_observer(made)
    return Lineage(made, used, is_own=client is None)


def _configured_client() -> Any:
    try:
        return _import("openlineage.client").OpenLineageClient()
    except EnvironmentProblemError:
        raise
    except Exception as exc:  # of a transport, which has errors of its own
        raise EnvironmentProblemError(
            "The configuration of the OpenLineage client is invalid. "
            f"{type(exc).__name__}: {DEFAULT_REDACTOR.text(str(exc))}"
        ) from exc


def _import(name: str) -> Any:
    return import_extra(name, "openlineage", "Lineage")
