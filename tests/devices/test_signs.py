"""Cheap signs of a TPU."""

from __future__ import annotations

import pytest

from workbench.devices.signs import TPU_VARIABLES, tpu_signs


@pytest.mark.parametrize("name", TPU_VARIABLES)
def test_variables(tmp_path, name):
    assert tpu_signs({name: "local"}, tmp_path) == [f"{name}=local"]
    assert tpu_signs({name: ""}, tmp_path) == []


@pytest.mark.parametrize(
    ("files", "sign"),
    [
        (["dev/accel0", "dev/accel1"], "2 of /dev/accel[0-9]*"),
        (["dev/accel/accel0"], "1 of /dev/accel/accel[0-9]*"),
        (["dev/vfio/0", "dev/vfio/vfio"], "1 of /dev/vfio/[0-9]*"),
    ],
)
def test_device_files(tmp_path, files, sign):
    for name in files:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert tpu_signs({}, tmp_path) == [sign]


@pytest.mark.parametrize(
    ("vendor", "device", "found"),
    [("0x1ae0", "0x0063", ["1 TPU chips on the PCI bus"]), ("0x1ae0", "0x0042", []), ("0x10de", "0x0063", [])],
)
def test_chips_on_the_bus_but_not_googles_network_card(tmp_path, vendor, device, found):
    folder = tmp_path / "sys/bus/pci/devices/0000:00:05.0"
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(f"{vendor}\n")
    (folder / "device").write_text(f"{device}\n")
    assert tpu_signs({}, tmp_path) == found
