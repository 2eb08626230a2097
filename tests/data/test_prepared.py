import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest

import workbench
from workbench import DataError
from workbench.data import cache_dir
from workbench.data.prepared import DataFacts, prepare


def folder_of_cache():
    (folder,) = (path for path in (cache_dir() / "datasets").iterdir() if path.is_dir())
    return folder


def test_images_labels_and_facts(counted):
    data = counted(100).prepare()
    assert data.images.shape == (100, 4, 4, 1)
    assert data.images[:, 0, 0, 0].tolist() == list(range(100))
    assert data.labels.tolist() == [value % 3 for value in range(100)]
    assert data.facts.counts == {"train": 70, "validation": 15, "test": 15}
    assert data.facts.class_names == ("class 0", "class 1", "class 2")
    assert not data.images.flags.writeable


def test_decodes_once_whatever_split_limit_or_seed(counted):
    source = counted(100)
    for arguments in ({}, {}, {"limit": 20}, {"split_seed": 3}):
        source.prepare(**arguments)
    assert source.reads == 1


def test_a_changed_signature_decodes_again(counted):
    source = counted(100)
    source.prepare()
    source.source["signature"] = "2"
    source.prepare()
    assert source.reads == 2


@pytest.mark.parametrize("name", ["images.bin", "labels.npy", "parts.npy", "facts.json"])
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_broken_cache_is_rebuilt(counted, name, damage):
    source = counted(100)
    fingerprint = source.prepare().facts.fingerprint
    path = folder_of_cache() / name
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-7])
    else:
        path.unlink()
    assert source.prepare().facts.fingerprint == fingerprint
    assert source.reads == 2


def test_an_error_while_decoding_leaves_nothing(counted):
    source = counted(100)
    good = source.read

    def broken():
        yield next(good())
        raise DataError("image 17 is broken")

    with pytest.raises(DataError, match="image 17 is broken"):
        counted(100, read=broken).prepare()
    assert [path for path in (cache_dir() / "datasets").iterdir() if path.is_dir()] == []
    assert len(source.prepare().labels) == 100


def test_what_a_killed_process_left_is_cleared(counted):
    source = counted(100)
    source.prepare()
    folder = folder_of_cache()
    folder.rename(f"{folder}.partial")
    source.prepare()
    assert folder_of_cache() == folder
    assert source.reads == 2


DISK_FULL = """
import resource
import workbench
from workbench.data import prepare
from workbench_plugins.datasets.digits import workbench_datasets

# Stands in for a full disk: the kernel lets no file grow beyond 1,000 bytes.
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    prepare(workbench_datasets()[0], data_dir=None, image_size=None, options={})
except workbench.DataError as error:
    print(error)
"""


def test_a_full_disk_is_one_message_and_leaves_nothing():
    answer = subprocess.run([sys.executable, "-c", DISK_FULL], capture_output=True, text=True, check=True)
    assert "cannot be written to" in answer.stdout
    assert "(File too large); free some space there, or set WORKBENCH_CACHE" in answer.stdout
    assert [path for path in (cache_dir() / "datasets").iterdir() if path.is_dir()] == []


def test_a_cache_folder_that_cannot_be_made(counted, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"cannot be written to .*file/datasets.*set WORKBENCH_CACHE"):
        counted(100).prepare(cache_dir=tmp_path / "file")


DECODE_SLOWLY = """
import dataclasses, os, sys, time
from workbench.data import prepare
from workbench_plugins.datasets.digits import workbench_datasets

(digits,) = workbench_datasets()

def open_slow(request):
    source = digits.open(request)
    def read():
        print("reads", flush=True)
        time.sleep(0.5)
        yield from source.read()
    return dataclasses.replace(source, read=read)

data = prepare(dataclasses.replace(digits, open=open_slow), data_dir=None, image_size=None, options={})
print(data.facts.fingerprint)
"""


def test_two_processes_decode_once():
    command = [sys.executable, "-c", DECODE_SLOWLY]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = sorted((process.communicate(timeout=120)[0].split() for process in processes), key=len)
    fingerprint = answers[0][-1]
    assert answers == [[fingerprint], ["reads", fingerprint]]


def test_progress_is_reported(counted):
    calls = []
    counted(40).prepare(progress=lambda done, total: calls.append((done, total)))
    assert calls == [(16, 40), (32, 40), (40, 40)]


def test_indices_by_split(counted):
    data = counted(100).prepare()
    train, validation, test = (data.indices(split) for split in ("train", "validation", "test"))
    both = data.indices("train+validation")
    assert np.array_equal(both, np.sort(np.concatenate([train, validation])))
    assert not set(test) & set(both)
    assert train.dtype == np.int64


@pytest.mark.parametrize("split", ["test", "holdout"])
def test_a_missing_split_names_those_that_exist(counted, split):
    data = counted(100, cuts=("validation",)).prepare()
    with pytest.raises(DataError, match=f"'counted' has no split '{split}'; it has train, validation"):
        data.indices(split)


def test_facts_survive_json(counted):
    facts = counted(100).prepare().facts
    assert DataFacts(**json.loads(json.dumps(dataclasses.asdict(facts)))) == facts


def test_the_fingerprint_follows_images_labels_names_and_splits(counted):
    base = counted(100).prepare().facts.fingerprint
    others = [
        counted(101, signature="2").prepare(),
        counted(100, classes=4).prepare(),
        counted(100, class_names=("a", "b", "c")).prepare(),
        counted(100).prepare(limit=20),
        counted(100).prepare(split_seed=1),
    ]
    assert counted(100, signature="elsewhere").prepare().facts.fingerprint == base
    assert len({base, *(data.facts.fingerprint for data in others)}) == 6


def batch(**changes):
    fields = {
        "part": "all",
        "images": np.zeros((2, 4, 4, 1), dtype=np.uint8),
        "labels": np.zeros(2, dtype=np.int32),
    }
    return workbench.ExampleBatch(**(fields | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"part": "extra"}, "part 'extra': the source declares only the parts all"),
        ({"images": np.zeros((2, 4, 5, 1), np.uint8)}, r"must be uint8 of shape \(4, 4, 1\).*\(4, 5, 1\)"),
        ({"images": np.zeros((2, 4, 4, 1), np.float32)}, "must be uint8.*received float32"),
        ({"labels": np.zeros(3, np.int32)}, r"2 images but labels of shape \(3,\)"),
        ({"labels": np.array([0, 3], np.int32)}, r"labels must be 0 to 2 \(3 classes\); received 3"),
        ({"labels": np.array([0, -1], np.int32)}, "received -1"),
    ],
)
def test_what_a_source_reads_is_checked(counted, changes, message):
    with pytest.raises(DataError, match=message):
        counted(100, read=lambda: iter([batch(**changes)])).prepare()


def test_no_images(counted):
    with pytest.raises(DataError, match="data set 'counted': no images were found"):
        counted(0).prepare()


def test_an_unknown_option_names_the_near_one(counted):
    with pytest.raises(DataError, match=r"no option 'shad'; its options: shade\. Did you mean 'shade'"):
        counted(9).prepare(options={"shad": 1})


def test_image_size_must_be_positive(counted):
    with pytest.raises(DataError, match="image_size must be at least 1 pixel; received 0"):
        counted(9).prepare(image_size=0)


def test_files_need_a_folder_that_exists(counted, tmp_path):
    component = dataclasses.replace(counted(9).component(), needs_data_dir=True)
    with pytest.raises(DataError, match="pass --data-dir FOLDER or set WORKBENCH_DATA"):
        prepare(component, data_dir=None, image_size=None, options={})
    with pytest.raises(DataError, match=r"the data folder .*gone does not exist"):
        prepare(component, data_dir=tmp_path / "gone", image_size=None, options={})


def test_importing_imports_no_tensorflow():
    names = "prepare, training_dataset, decode_image"
    code = f"import sys; from workbench.data import {names}; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
