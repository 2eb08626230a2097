"""The worker process: `python -m workbench.engine.worker CONNECTION LIFELINE`, two inherited file descriptors.

It answers one request at a time and ends when the driver does: a thread waits on the lifeline, a pipe whose other end
only the driver holds, so that even a driver killed with SIGKILL leaves no process behind.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from typing import Any

from workbench.engine.protocol import QUESTIONS
from workbench.errors import WorkbenchError, WorkError


def main(connection_handle: int, lifeline_handle: int) -> None:
    """Serves requests `(method, arguments)` until the connection closes."""
    threading.Thread(target=_end_with_driver, args=(lifeline_handle,), daemon=True).start()
    connection: Connection[Any, Any] = Connection(connection_handle)
    try:
        _serve(connection)
    except (EOFError, ConnectionError):
        pass
    finally:
        # Not sys.exit: TensorFlow's threads may hang at interpreter shutdown.
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(0)


def _end_with_driver(lifeline_handle: int) -> None:
    while os.read(lifeline_handle, 1):
        pass
    os._exit(1)


def _leave_libraries_uncollected() -> None:
    """Spares the libraries, half a million objects that never go, the collections between trials: 0.5 s a trial."""
    gc.collect()
    gc.freeze()


def _log_traceback() -> None:
    # The log may be on the full disk that the error is about.
    with contextlib.suppress(OSError):
        traceback.print_exc()


def _serve(connection: Connection[Any, Any]) -> None:
    session: Any = None
    takes_events = ("prepare", "execute")

    def emit(event: dict[str, Any]) -> Any:
        connection.send(("event", event))
        return connection.recv() if event["event"] in QUESTIONS else None

    while True:
        method, arguments = connection.recv()
        try:
            if method == "open":
                from workbench.engine.session import Session

                session, result = Session(*arguments), None
            elif method in takes_events:
                result = getattr(session, method)(*arguments, emit)
                if method == "prepare":
                    _leave_libraries_uncollected()
            else:
                result = getattr(session, method)(*arguments)
        except WorkbenchError as error:
            _log_traceback()
            connection.send(("error", error))
        except (Exception, SystemExit) as error:
            _log_traceback()
            text = " ".join(str(error).split())
            connection.send(("error", WorkError(f"{method} failed in the worker: {type(error).__name__}: {text}")))
        else:
            connection.send(("done", result))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
