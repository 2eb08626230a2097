"""`workbench check --tpu`: what runs without the compiler."""

from __future__ import annotations

import json

import pytest

from workbench.cli import main


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """`run(*arguments) -> (exit code, stdout, stderr)`, in this process and a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return stop.value.code, out, err

    return call


def test_static_rules_need_no_compiler(run):
    code, out, err = run("check", "cifar10_convnet", "--tpu", "v2-8", "--tier", 1, "--format", "json", "--quiet")
    assert code == 0
    assert err == "data set 'cifar10': 60,000 images 32x32x3 of 10 classes\n"
    (row,) = json.loads(out)
    assert (row["name"], row["topology"], row["batch_size_per_replica"]) == ("cifar_convnet", "v2-8", 128)
    assert (row["parameters"], row["precision"], row["hbm_gib"]) == (1_676_982, "mixed_bfloat16", 8)
    assert row["mxu_fill"] == pytest.approx(0.245, abs=5e-4)
    assert row["fits"] is None
    assert "conv2d" in row["advice"]


def test_a_wider_matrix_unit_is_less_full(run):
    fills = [
        json.loads(run("check", "quickstart", "--tpu", name, "--tier", 1, "--format", "json", "-q")[1])[0]["mxu_fill"]
        for name in ("v5e-8", "v6e-8")
    ]
    assert fills[1] < fills[0]


def test_what_is_missing_is_named_with_its_command(run, monkeypatch):
    monkeypatch.setattr("workbench.check.tpu.highest_tier", lambda: 1)
    code, out, _ = run("check", "flowers_squeezenet", "--tpu", "v5e-8", "-q", "--columns", "name,mxu_fill")
    assert code == 0
    assert "pip install 'convnet-search-workbench[tpu-aot]'" in out
    assert "squeezenet is built for 192x192x3 images and 5 classes" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("quickstart", "--tpu", "v5-8"), "received 'v5-8'. Did you mean"),
        (("quickstart", "--tpu", "v2-8", "--batch-size-per-replica", 0), "must be 1 or more; received 0"),
        (("quickstrat", "--tpu", "v2-8"), "quickstart"),
        (("quickstart", "--tpu", "v2-8", "--top", 2), "no such study"),
        (("quickstart", "--tpu", "v2-8", "--point", "odd"), "--point must be"),
    ],
)
def test_wrong_use_is_one_message(run, arguments, words):
    code, _, err = run("check", *arguments, "-q")
    assert code == 2
    assert words in err
    assert err.count("error:") == 1


def test_without_a_tpu_the_search_is_linted(run):
    code, out, err = run("check", "quickstart", "--format", "json", "-q")
    assert code == 0
    (row,) = json.loads(out)
    assert (row["name"], row["parameters"], row["problems"]) == ("cifar_convnet", 133_486, "")
    assert "space: 11 hyperparameters are searched" in err
