"""Where executions run: in a worker process (the default) or in the driver."""

from __future__ import annotations

import os
from pathlib import Path

from workbench.engine.protocol import Engine, Job

__all__ = ["Engine", "Job", "make_engine"]


def make_engine(job: Job, log: Path, *, inline: bool) -> Engine:
    """An engine for a job: a worker process that has begun to start, or this process.

    Args:
        job: what to prepare for.
        log: where a worker's output goes.
        inline: train in this process, for debugging and notebooks.
    """
    if inline:
        os.environ.update(job.device.environment)
        from workbench.engine.session import Session

        return Session(job)
    from workbench.engine.process import WorkerEngine

    engine = WorkerEngine(job, log)
    engine.start()
    return engine
