"""The command line: one module a command group; heavy imports happen inside the commands."""

from __future__ import annotations

from workbench.cli.main import cli, main

__all__ = ["cli", "main"]
