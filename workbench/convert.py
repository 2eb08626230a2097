"""From what a person names, a study's trial or a model's file, to an exported model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workbench.display import Display, SilentDisplay
from workbench.errors import UsageError
from workbench.exports.formats import choose_format
from workbench.exports.samples import decoding, draw_sample
from workbench.exports.writing import Exported, check_target, write_export
from workbench.modelfile import load_model, read_facts
from workbench.points import find_study
from workbench.quiet import quiet_stderr
from workbench.registry import Registry


def export(
    source: str | Path,
    path: str | Path,
    *,
    format: str | None = None,
    directory: str | Path = "studies",
    data_dir: str | Path | None = None,
    overwrite: bool = False,
    plugin_files: Sequence[str | Path] = (),
    plugins_dirs: Sequence[str | Path] = (),
    display: Display | None = None,
) -> Exported:
    """Writes a trained model in a format that other programs read, checked against Keras; see docs/export.md.

    Args:
        source: "STUDY" or "STUDY:TRIAL" (a path, or a name in `directory`), or a `.keras` file that `train` wrote.
            Without a trial: the leaderboard's first with stored weights.
        path: where to; see `workbench.exports.formats.FORMATS` for the endings. A model card goes beside it.
        format: "keras", "weights", "savedmodel", "tflite" or "onnx"; by default what the path's ending says.
        directory: the folder of studies.
        data_dir: for the validation images of the check; None takes the environment's WORKBENCH_DATA, and
            seeded noise where the data are not there.
        overwrite: replace a model that is there.
        plugin_files, plugins_dirs: see `Registry.load`.
        display: told of progress.

    Raises:
        UsageError: the source, the path or the format does not fit, or a package is missing.
        WorkError: the model cannot be written so, or predicts otherwise than Keras's; nothing is left behind.
    """
    target = Path(path)
    chosen = choose_format(format, target)
    check_target(chosen, target, overwrite)
    registry = Registry.load(plugin_files, plugins_dirs)
    given = str(source)
    options: dict[str, Any] = {"format": chosen, "overwrite": overwrite, "data_dir": data_dir, "display": display}
    if given.endswith(".keras"):
        return _export_file(Path(given), target, registry, **options)
    name, trial_id = _split_trial(given)
    study = find_study(name, directory)
    return study.export(target, trial_id=trial_id, registry=registry, **options)


def _split_trial(source: str) -> tuple[str, str | None]:
    name, colon, trial_id = source.rpartition(":")
    # A study's folder may have a colon in its name.
    if not colon or (Path(source) / "journal.jsonl").exists():
        return source, None
    if not name or not trial_id:
        raise UsageError(f"the model to export must be STUDY, STUDY:TRIAL or MODEL.keras; received {source!r}")
    return name, trial_id


def _export_file(
    source: Path,
    target: Path,
    registry: Registry,
    *,
    format: str,
    overwrite: bool,
    data_dir: str | Path | None,
    display: Display | None,
) -> Exported:
    facts = read_facts(source)
    if facts.get("input") == "uint8":
        raise UsageError(
            f"{source}: is an export already; give the study, or the model that `workbench train -o` wrote"
        )
    display = display or SilentDisplay()
    folder = Path(data_dir) if data_dir is not None else None
    sample = draw_sample(facts, registry, data_dir=folder, progress=decoding(display))
    display.phase("loading the model")
    with quiet_stderr():
        model, _ = load_model(source)
    facts.setdefault("parameters", model.count_params())
    return write_export(model, facts, sample, format_name=format, path=target, overwrite=overwrite, display=display)
