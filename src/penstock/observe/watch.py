"""Shows queries live, on a background thread."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Callable, Sequence

from penstock.observe.observatory import OBSERVATORY
from penstock.observe.snapshot import QuerySnapshot
from penstock.observe.watch_html import html_table, notebook_view
from penstock.observe.watch_views import LinesView, TableView, View

_logger = logging.getLogger(__name__)


class Watch:
    """Shows snapshots every `refresh` seconds until `stop` is called or `is_over` is true.

    It never changes a query. If the view raises, the error is logged, the watch ends, and the
    queries are not affected. The view is closed in every case. As a context manager, the watch is
    stopped at the end of the block. Raises ValueError, before the view is created, if `refresh` is
    not positive.
    """

    def __init__(
        self,
        source: Callable[[], Sequence[QuerySnapshot]],
        make_view: Callable[[], View],
        *,
        refresh: float = 0.5,
        is_over: Callable[[Sequence[QuerySnapshot]], bool] = lambda snapshots: False,
    ) -> None:
        if refresh <= 0:
            raise ValueError(f"refresh must be more than 0 seconds, not {refresh}")
        self._source = source
        self._view = make_view()
        self._refresh = refresh
        self._is_over = is_over
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Show the queries a last time and end the watch. Calling it again has no effect."""
        self._stop.set()
        self._thread.join()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the watch has ended; returns whether it has within `timeout` seconds."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _repr_html_(self) -> str:
        """The HTML that a notebook displays: one line while the watch is live, then a table."""
        if self._thread.is_alive():
            return "<small>live, until <code>stop()</code> of this watch is called</small>"
        return html_table(self._source())

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            with contextlib.closing(self._view):
                self._show_until_over()
        except Exception:
            _logger.warning("The watch has failed; the queries continue", exc_info=True)

    def _show_until_over(self) -> None:
        over = False
        while not over:
            stopped = self._stop.wait(0)
            snapshots = self._source()
            self._view.show(snapshots)
            over = stopped or self._is_over(snapshots)
            if not over:
                self._stop.wait(self._refresh)


def watch(*, refresh: float = 0.5) -> Watch:
    """Show the queries of this process live, until `stop` of the returned watch is called.

    Shows a table in a terminal, HTML in a notebook, and elsewhere one line per batch on standard
    error. Updates every `refresh` seconds. The watch is also a context manager:

        with penstock.watch():
            query.awaitTermination()
    """
    return Watch(OBSERVATORY.snapshots, default_view, refresh=refresh)


def watch_query(query_id: str, *, refresh: float = 0.5) -> Watch:
    """Show one query live, until it has terminated or the watch is stopped."""

    def source() -> list[QuerySnapshot]:
        snapshot = OBSERVATORY.snapshot(query_id)
        return [] if snapshot is None else [snapshot]

    def is_over(snapshots: Sequence[QuerySnapshot]) -> bool:
        return all(snapshot.is_over for snapshot in snapshots)

    return Watch(source, default_view, refresh=refresh, is_over=is_over)


def default_view() -> View:
    """A view for the environment: a notebook, a terminal, or lines on standard error."""
    view = notebook_view()
    if view is not None:
        return view
    return TableView() if sys.stderr.isatty() else LinesView()
