"""Showing queries live, on a thread of its own."""

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
    """Shows snapshots every so often until it is stopped, or until there is no more to come.

    It only ever reads. If showing fails, that is logged and the watch is over; the queries do not
    notice. However it ends, the view is closed. Also a context manager: stopped at its end. Raises
    ValueError, before the view is made, for a `refresh` that is no time.
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
            raise ValueError(f"refresh is to be more than 0 seconds, not {refresh}")
        self._source = source
        self._view = make_view()
        self._refresh = refresh
        self._is_over = is_over
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Show how things are once more, and no longer. Doing it twice is fine."""
        self._stop.set()
        self._thread.join()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until there is no more to come; whether that is so."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _repr_html_(self) -> str:
        """How a notebook shows it: in a line while the view is live, then as a table."""
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
            _logger.warning("The watch has failed; the queries go on", exc_info=True)

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
    """Show every query of this process live, until the watch is stopped.

    As a table in a terminal, as HTML in a notebook, else as a line for each batch.
    """
    return Watch(OBSERVATORY.snapshots, view_of_this_place, refresh=refresh)


def watch_query(query_id: str, *, refresh: float = 0.5) -> Watch:
    """Show one query live, until it has ended or the watch is stopped."""

    def source() -> list[QuerySnapshot]:
        snapshot = OBSERVATORY.snapshot(query_id)
        return [] if snapshot is None else [snapshot]

    def is_over(snapshots: Sequence[QuerySnapshot]) -> bool:
        return all(snapshot.is_over for snapshot in snapshots)

    return Watch(source, view_of_this_place, refresh=refresh, is_over=is_over)


def view_of_this_place() -> View:
    """The view for where this program runs: notebook, terminal or neither."""
    view = notebook_view()
    if view is not None:
        return view
    return TableView() if sys.stderr.isatty() else LinesView()
