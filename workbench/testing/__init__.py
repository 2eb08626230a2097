"""For tests and benchmarks, the workbench's own and those of plugins: studies that no training made.

`synthetic_study` writes a study of realistic shape in the real format in seconds. Importing this package imports
no deep-learning library.
"""

from __future__ import annotations

from workbench.testing.synthetic import synthetic_study

__all__ = ["synthetic_study"]
