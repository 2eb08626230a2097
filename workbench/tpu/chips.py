"""The TPUs that `workbench check --tpu` knows: cores, memory, matrix units.

Sources: Google Cloud's pages of each version (cloud.google.com/tpu/docs/v2, v3, v4, v5e, v5p, v6e: HBM and peak
bfloat16 rate a chip, HBM bandwidth, matrix units a core) and 'TPU system architecture' (128 x 128 multiply-adds a
matrix unit until v5, 256 x 256 from v6e on), quoted from memory; the numbers of devices are what libtpu 0.0.42.1 says.
The number after the dash counts TensorCores for v2 to v5p and chips for v5e and v6e. On v4 and v5p a program may see
the two cores of a chip as one device (a megacore): libtpu describes v5p so, and v4 as single cores of half the memory,
where a real v4 shows megacores.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.errors import UsageError, near_names

GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class Topology:
    """A TPU by the name that it is rented under.

    Attributes:
        name: "v2-8".
        compiler_name: the same for the compiler, "v2:2x2".
        cores: devices that a program sees; each one holds a replica.
        hbm_gib: memory of one of them, in GiB; the compiler keeps some of it for itself.
        unit: rows and columns of its matrix units.
        units: matrix units of one core.
        peak_tflops: bfloat16 rate of one core, in 1e12 operations a second.
        bandwidth_gb_s: of one core's memory, in 1e9 bytes a second.
    """

    name: str
    compiler_name: str
    cores: int
    hbm_gib: float
    unit: int
    units: int
    peak_tflops: float
    bandwidth_gb_s: float

    @property
    def ridge(self) -> float:
        """Operations a byte below which the memory, not the matrix unit, sets the pace."""
        return self.peak_tflops * 1000 / self.bandwidth_gb_s


TOPOLOGIES = {
    item.name: item
    for item in (
        Topology(
            name="v2-8",
            compiler_name="v2:2x2",
            cores=8,
            hbm_gib=8,
            unit=128,
            units=1,
            peak_tflops=22.5,
            bandwidth_gb_s=350,
        ),
        Topology(
            name="v3-8",
            compiler_name="v3:2x2",
            cores=8,
            hbm_gib=16,
            unit=128,
            units=2,
            peak_tflops=61.5,
            bandwidth_gb_s=450,
        ),
        Topology(
            name="v4-8",
            compiler_name="v4:2x2x1",
            cores=8,
            hbm_gib=16,
            unit=128,
            units=4,
            peak_tflops=137.5,
            bandwidth_gb_s=600,
        ),
        Topology(
            name="v5e-4",
            compiler_name="v5e:2x2",
            cores=4,
            hbm_gib=16,
            unit=128,
            units=4,
            peak_tflops=197,
            bandwidth_gb_s=819,
        ),
        Topology(
            name="v5e-8",
            compiler_name="v5e:2x4",
            cores=8,
            hbm_gib=16,
            unit=128,
            units=4,
            peak_tflops=197,
            bandwidth_gb_s=819,
        ),
        Topology(
            name="v5p-8",
            compiler_name="v5p:2x2x1",
            cores=4,
            hbm_gib=95,
            unit=128,
            units=8,
            peak_tflops=459,
            bandwidth_gb_s=2765,
        ),
        Topology(
            name="v6e-8",
            compiler_name="v6e:2x4",
            cores=8,
            hbm_gib=32,
            unit=256,
            units=2,
            peak_tflops=918,
            bandwidth_gb_s=1640,
        ),
    )
}
"""By name, oldest first."""


def find_topology(name: str) -> Topology:
    """The topology of this name.

    Raises:
        UsageError: there is none, with near names.
    """
    found = TOPOLOGIES.get(name)
    if found is None:
        known = ", ".join(TOPOLOGIES)
        raise UsageError(f"--tpu must be one of {known}; received {name!r}.{near_names(name, TOPOLOGIES)}")
    return found
