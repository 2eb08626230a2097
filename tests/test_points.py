"""Points named on the command line."""

from __future__ import annotations

import json

import pytest

from workbench.errors import StudyError, UsageError
from workbench.points import read_point


def test_points_from_files_and_studies(tmp_path, write_study):
    assert read_point("default", tmp_path) == (None, {})
    (tmp_path / "p.toml").write_text('"tiny/units" = 4\n"tiny/activation" = "tanh"\n')
    (tmp_path / "p.json").write_text(json.dumps({"tiny/units": 4, "tiny/activation": "tanh"}))
    for suffix in ("toml", "json"):
        point = str(tmp_path / f"p.{suffix}")
        assert read_point(point, "anywhere") == ({"tiny/units": 4, "tiny/activation": "tanh"}, {})
    write_study(tmp_path / "s", [{"values": {"tiny/units": 4}, "scores": [[0.5], [0.6]]}])
    expected = ({"tiny/units": 4}, {1: 1, 2: 2})
    assert read_point("s:0001", tmp_path) == expected
    assert read_point(f"{tmp_path / 's'}:1", "anywhere") == expected


@pytest.mark.parametrize(
    ("point", "text", "error", "message"),
    [
        ("best", None, UsageError, "--point must be default, a .toml or .json file, or STUDY:TRIAL; received 'best'"),
        ("p.toml", None, UsageError, r"--point .*p\.toml: no such file"),
        ("p.toml", "= 3", UsageError, r"--point .*p\.toml: cannot be read as TOML"),
        ("p.json", "{", UsageError, r"--point .*p\.json: cannot be read as JSON"),
        ("p.json", '{"a": [1]}', UsageError, r"must map full hyperparameter names to values, .*'a' is list"),
        ("p.json", "[1]", UsageError, r"--point .*p\.json: must map full hyperparameter names to values"),
        ("none:1", None, StudyError, "none: no such study"),
    ],
)
def test_a_point_that_cannot_be_read(tmp_path, point, text, error, message):
    if text is not None:
        (tmp_path / point).write_text(text)
    name = str(tmp_path / point) if "." in point else point
    with pytest.raises(error, match=message):
        read_point(name, tmp_path)
