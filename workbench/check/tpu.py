"""What a TPU makes of networks: every tier that can run here, one row a network."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.check.subjects import Subject, build_network
from workbench.directory import now
from workbench.display import Display, SilentDisplay
from workbench.errors import UsageError
from workbench.registry import Registry
from workbench.tpu.chips import GIB, Topology, find_topology
from workbench.tpu.compiler import (
    INSTALL,
    MAX_COMPILATIONS,
    CompilerError,
    TpuCompiler,
    highest_tier,
    largest_batch,
    versions,
)
from workbench.tpu.stored import append_verdict
from workbench.tpu.verdict import Compiled, Step, VerdictCache, cache_key

if TYPE_CHECKING:
    from workbench.hypermodel import Network
    from workbench.study import Study

COLUMNS = (
    "name",
    "topology",
    "batch_size_per_replica",
    "precision",
    "parameters",
    "mxu_fill",
    "static",
    "fits",
    "peak_gib",
    "hbm_gib",
    "gflop",
    "gbytes",
    "intensity",
    "largest_batch",
    "advice",
)
"""Of the table that the command prints."""

TYPES = {
    "parameters": "Int64",
    "largest_batch": "Int64",
    **dict.fromkeys(("mxu_fill", "peak_gib", "hbm_gib", "gflop", "gbytes", "intensity"), "float64"),
}
"""Their dtypes where they are not words."""

SENTENCE = "compiled for, not executed on, TPU"


@dataclass(frozen=True, kw_only=True)
class TpuOptions:
    """How to check.

    Attributes:
        topology: such as "v2-8".
        batch_size: images a core.
        tier: how far to go: 1 static rules, 2 lowering, 3 the compiler.
        largest_batch: look for the largest batch that fits even where the one asked for does.
        max_seconds: for one compilation.
        plugin_files, plugins_dirs: see `Registry.load`.
    """

    topology: str
    batch_size: int = 128
    tier: int = 3
    largest_batch: bool = False
    max_seconds: float = 900.0
    plugin_files: Sequence[str | Path] = ()
    plugins_dirs: Sequence[str | Path] = ()


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What came of a check.

    Attributes:
        rows: one mapping a network, with the keys `COLUMNS`.
        notes: what a reader of the rows should know.
    """

    rows: list[dict[str, Any]]
    notes: list[str]


def check_tpu(
    subjects: Sequence[Subject], options: TpuOptions, *, display: Display | None = None, study: Study | None = None
) -> Checked:
    """Asks every tier that can run here what a TPU makes of each network; `study` gets what the compiler said.

    A network that cannot be lowered or compiled, or whose compilation takes too long, has the reason in its row.

    Raises:
        UsageError: an unknown topology, a batch smaller than 1.
        SpaceError: a point does not build.
        StorageError: the cache or the study's file cannot be written.
        KeyboardInterrupt: what was compiled until then is in the cache.
    """
    topology = find_topology(options.topology)
    if options.batch_size < 1:
        raise UsageError(f"--batch-size-per-replica must be 1 or more; received {options.batch_size}")
    tier = min(options.tier, highest_tier())
    notes = [_missing(tier)] if tier < options.tier else []
    display = display or SilentDisplay()
    registry = Registry.load(options.plugin_files, options.plugins_dirs)
    rows = []
    with contextlib.ExitStack() as stack:
        compiler = stack.enter_context(TpuCompiler(options.max_seconds)) if tier > 1 else None
        started = time.monotonic()
        for number, subject in enumerate(subjects):
            left = (time.monotonic() - started) / number * (len(subjects) - number) if number else 0.0
            estimate = (
                f", about {left / 60:.0f} min left" if left > 90 else f", about {left:.0f} s left" if left else ""
            )
            position = f"{number + 1} of {len(subjects)}{estimate}"
            check = _Check(subject, topology, options, registry, display, position)
            row = check.run(compiler, tier)
            rows.append(row)
            if study is not None and row["fits"] is not None:
                append_verdict(study.path, {"trial_id": subject.trial_id, "at": now(), **row, **check.facts})
    if any(row["fits"] is not None for row in rows):
        notes.append(f"{SENTENCE} ({_tools()})")
    return Checked(rows=rows, notes=notes)


class _Check:
    """One network through the tiers."""

    def __init__(
        self,
        subject: Subject,
        topology: Topology,
        options: TpuOptions,
        registry: Registry,
        display: Display,
        position: str,
    ):
        self._subject, self._topology, self._options = subject, topology, options
        self._registry, self._display, self._position = registry, display, position
        self._cache = VerdictCache()
        wanted = subject.definition.training.precision
        self._step = Step(
            definition=subject.definition.resolved(),
            values=dict(subject.values),
            image_shape=subject.image_shape,
            num_classes=subject.num_classes,
            precision="mixed_bfloat16" if wanted == "auto" else wanted,
            batch_size=options.batch_size,
            topology=topology.compiler_name,
            plugin_files=tuple(str(Path(name).resolve()) for name in options.plugin_files),
            plugins_dirs=tuple(str(Path(name).resolve()) for name in options.plugins_dirs),
        )
        self.facts: dict[str, Any] = {}

    def run(self, compiler: TpuCompiler | None, tier: int) -> dict[str, Any]:
        """The row; what a tier cannot say is None."""
        advice, training, row = self._static()
        self.facts = {"graph": row.pop("graph"), "versions": versions()}
        if compiler is None:
            return {**row, "advice": "; ".join(advice)}
        try:
            self._tell("lowering")
            lowered = compiler.lower(self._step)
            faults = [f"host: {item}" for item in lowered.host_ops] + [f"dynamic: {item}" for item in lowered.dynamic]
            row["static"] = not faults
            advice = faults + advice
            if tier > 2 and not faults:
                advice = self._compile(compiler, training, row) + advice
        except CompilerError as error:
            advice = [str(error), *advice]
        return {**row, "advice": "; ".join(advice)}

    def _static(self) -> tuple[list[str], dict[str, Any], dict[str, Any]]:
        """Tier 1: advice, what else the program depends on, and the row so far."""
        import keras

        from workbench.costs import graph_hash, has_own_layers
        from workbench.tpu.fill import advise, model_fill

        self._tell("building")
        before = keras.config.dtype_policy()
        keras.config.set_dtype_policy(self._step.precision)
        try:
            network = build_network(self._subject, self._registry)
        finally:
            keras.config.set_dtype_policy(before)
        model, unit = network.model, self._topology.unit
        precision, batch_size = self._step.precision, self._step.batch_size
        row: dict[str, Any] = dict.fromkeys(COLUMNS) | {
            "name": self._subject.name,
            "topology": self._topology.name,
            "batch_size_per_replica": batch_size,
            "precision": precision,
            "parameters": model.count_params(),
            "mxu_fill": model_fill(model, unit),
            "hbm_gib": self._topology.hbm_gib,
            "graph": graph_hash(model),
        }
        # The hash is of settings: what a plugin's own layers do with them is in its source.
        sources = sorted(source.sha256 for source in self._registry.sources()) if has_own_layers(model) else []
        advice = advise(model, batch_size=batch_size, precision=precision, unit=unit)
        return advice, {**_training_facts(network), "plugins": sources}, row

    def _compile(self, compiler: TpuCompiler, training: Mapping[str, Any], row: dict[str, Any]) -> list[str]:
        """Tier 3: fills the row, gives advice."""
        seconds: list[float] = []

        def try_batch(batch_size: int) -> Compiled:
            step = replace(self._step, batch_size=batch_size)
            key = cache_key(step, graph=self.facts["graph"], training=training, versions=self.facts["versions"])
            known = self._cache.get(key)
            if known is None:
                self._tell(f"compiling batch {batch_size}", seconds)
                started = time.monotonic()
                known = compiler.compile(step)
                seconds.append(time.monotonic() - started)
                self._cache.put(key, known)
            return known

        answer = try_batch(self._step.batch_size)
        row |= _figures(answer)
        largest, refused = self._step.batch_size, None
        if not answer.fits or self._options.largest_batch:
            largest, refused = largest_batch(try_batch, self._step.batch_size, answer, self._topology.hbm_gib * GIB)
            row["largest_batch"] = largest
        return _memory_advice(answer, row, largest, refused, self._topology)

    def _tell(self, what: str, seconds: Sequence[float] = ()) -> None:
        estimate = f" (the longest took {max(seconds):.0f} s; at most {MAX_COMPILATIONS + 1})" if seconds else ""
        self._display.phase(f"{self._position}, {self._subject.name}: {what} for {self._topology.name}{estimate}")


def _training_facts(network: Network) -> dict[str, Any]:
    """What the compiled program depends on beside the network; learning rates are mere constants of it."""
    config = network.optimizer.get_config()
    return {
        "optimizer": type(network.optimizer).__name__,
        "settings": {key: value for key, value in sorted(config.items()) if key not in ("learning_rate", "name")},
        "schedule": type(network.schedule).__name__,
        "loss": {key: value for key, value in network.loss.get_config().items() if key != "name"},
    }


def _figures(answer: Compiled) -> dict[str, Any]:
    flops, moved = answer.flops, answer.bytes_accessed
    return {
        "fits": answer.fits,
        "peak_gib": _per(answer.peak_bytes, GIB),
        "gflop": _per(flops, 1e9),
        "gbytes": _per(moved, 1e9),
        "intensity": flops / moved if flops is not None and moved else None,
    }


def _per(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit


def _memory_advice(
    answer: Compiled, row: Mapping[str, Any], largest: int, refused: int | None, topology: Topology
) -> list[str]:
    if not answer.fits:
        need = f"needs {row['peak_gib']:.2f} GiB or more" if row["peak_gib"] is not None else "needs more"
        have = (answer.available_bytes or topology.hbm_gib * GIB) / GIB
        fitting = f"batch {largest} a core fits" if largest else "not even batch 8 fits"
        limit = f", {refused} does not" if largest and refused and refused != row["batch_size_per_replica"] else ""
        return [f"out of memory: {need} of {have:.2f} GiB; {fitting}{limit}"]
    advice = []
    if row["intensity"] is not None and row["intensity"] < topology.ridge:
        ceiling = row["intensity"] / topology.ridge
        advice.append(
            f"bound by memory: {row['intensity']:.0f} operations a byte, {topology.ridge:.0f} keep the matrix unit "
            f"busy (at most {math.ceil(100 * ceiling)} % of its rate)"
        )
    return advice


def _missing(tier: int) -> str:
    what = "the compiler (tier 3) needs" if tier == 2 else "lowering (tier 2) and the compiler (tier 3) need"
    return f"{what} jax[tpu]: {INSTALL} (its libtpu is under Google's licence, not an open source one)"


def _tools() -> str:
    return ", ".join(f"{name} {version}" for name, version in versions().items() if name in ("jax", "libtpu"))
