"""Every error that the workbench raises on purpose.

::

    WorkbenchError
    ├── UsageError                  exit code 2: the request cannot be carried out as it stands
    │   ├── DefinitionError         a search definition: file, key path, every problem at once
    │   ├── PluginError             a plugin as registered
    │   │   ├── PluginLoadError     a plugin file or entry point that does not load
    │   │   ├── PluginClashError    two components with one name
    │   │   └── UnknownPluginError  a name that nothing registered
    │   ├── SpaceError              hyperparameters: overrides that match nothing, points outside
    │   ├── DataError               missing, empty, broken or unfit data
    │   ├── DeviceError             a device that was asked for and is not there
    │   └── StudyError              a study directory
    │       ├── StudyLockedError    another process runs this study
    │       ├── StudyChangedError   resumed with another definition
    │       └── JournalError        a journal that cannot be read
    └── WorkError                   exit code 1: the work was begun and failed
        ├── TrialError              one execution failed; has a `kind`
        ├── WorkerDiedError         the worker process ended without an answer
        ├── TimeLimitError          an execution took longer than it may
        └── StorageError            a journal or checkpoint could not be written

A message says the constraint, the value received, where it stood, and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class WorkbenchError(Exception):
    """The root of the tree; catch it to catch every error raised on purpose."""

    exit_code = 1


class UsageError(WorkbenchError):
    """The request cannot be carried out as it stands (exit code 2)."""

    exit_code = 2


class DefinitionError(UsageError):
    """A search definition that is not valid.

    Args:
        problems: one line a problem, each with its key path.
        where: the file, or the name of the argument, that they stand in.
    """

    def __init__(self, problems: Iterable[str], where: str):
        self.problems = tuple(problems)
        self.where = where
        count = len(self.problems)
        if count == 1:
            message = f"{where}: {self.problems[0]}"
        else:
            message = f"{where}: {count} problems\n" + "\n".join(f"  - {line}" for line in self.problems)
        super().__init__(message)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.problems, self.where)


class PluginError(UsageError):
    """A plugin that cannot be used as it is registered."""


class PluginLoadError(PluginError):
    """A plugin file or entry point that does not load."""


class PluginClashError(PluginError):
    """Two components were registered under one name."""


class UnknownPluginError(PluginError):
    """A component name that no plugin registered."""


class SpaceError(UsageError):
    """Hyperparameters: an override that matches nothing, a value outside its range."""


class DataError(UsageError):
    """Data that is missing, empty, broken or unfit for the request."""


class DeviceError(UsageError):
    """A device was asked for that this machine does not have."""


class StudyError(UsageError):
    """A study directory that cannot be used as asked."""


class StudyLockedError(StudyError):
    """Another process is running this study."""


class StudyChangedError(StudyError):
    """A study was resumed with a definition that differs from its own."""


class JournalError(StudyError):
    """A journal holds something that cannot be read."""


class WorkError(WorkbenchError):
    """The work was begun and failed (exit code 1)."""


class TrialError(WorkError):
    """One execution failed.

    Args:
        message: what happened.
        kind: what sort of failure, for counting equal ones: the exception's class name,
            or `non_finite_loss`, `worker_died`.
    """

    def __init__(self, message: str, kind: str):
        super().__init__(message)
        self.kind = kind

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.kind)


class WorkerDiedError(WorkError):
    """The worker process ended without an answer (killed, or out of memory)."""


class TimeLimitError(WorkError):
    """An execution took longer than `budget.max_trial_seconds` allows, and was ended."""


class StorageError(WorkError):
    """A journal or checkpoint could not be written: the disk is full, or gone.

    Args:
        path: what was to be written.
        error: what the operating system said.
    """

    def __init__(self, path: object, error: OSError | str):
        self.path, self.reason = str(path), str(getattr(error, "strerror", None) or error)
        super().__init__(
            f"{self.path}: cannot be written ({self.reason}). Nothing that was finished is lost: make room, then the "
            "same command continues"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.reason)


class OutputError(StorageError):
    """A file that was asked for could not be written; an old one is as it was.

    Args:
        path: what was to be written.
        error: what the operating system said.
    """

    def __init__(self, path: object, error: OSError | str):
        super().__init__(path, error)
        text = f"{self.path}: cannot be written ({self.reason}). Make room or name another place, then run it again"
        self.args = (text,)


def near_names(name: str, known: Iterable[str], *, lead: str = " Did you mean ") -> str:
    """A sentence part that offers the known names near `name`, or an empty string.

    Example: `near_names("squeezent", ["squeezenet"])` is `" Did you mean 'squeezenet'?"`.
    """
    matches = difflib.get_close_matches(str(name), [str(item) for item in known], n=3, cutoff=0.6)
    if not matches:
        return ""
    return lead + " or ".join(repr(match) for match in matches) + "?"
