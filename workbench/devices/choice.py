"""The decision: which device, which Keras backend, how many replicas."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from workbench.devices.probe import Probe, TpuAddress, probe_tpu
from workbench.devices.signs import gpu_names, installed_version, tpu_packages, tpu_signs
from workbench.errors import DeviceError

Kind = Literal["auto", "tpu", "gpu", "cpu"]
Backend = Literal["auto", "tensorflow", "jax"]
Route = Literal["single", "mirrored", "tpu_strategy", "data_parallel"]

BACKEND_VARIABLE = "KERAS_BACKEND"
INSTALL = "pip install 'convnet-search-workbench[tpu]'"


@dataclass(frozen=True, kw_only=True)
class DeviceWish:
    """What is asked for.

    Attributes:
        kind: "auto" takes a TPU if there is one, else GPUs, else the CPU.
        backend: of Keras; "auto" is what KERAS_BACKEND says, else JAX on a TPU (where it is installed) and
            TensorFlow elsewhere.
        replicas: how many cores; None for all of a TPU's or all GPUs, and one on a CPU, where more are logical
            devices that share the processor (to try out what a TPU would do).
        address: which TPU, see `TpuAddress`.
        probe_seconds: how long a TPU may take to start before it is given up.
    """

    kind: Kind = "auto"
    backend: Backend = "auto"
    replicas: int | None = None
    address: TpuAddress = field(default_factory=TpuAddress)
    probe_seconds: float = 120.0


@dataclass(frozen=True, kw_only=True)
class DeviceChoice:
    """What executions run on.

    Attributes:
        kind: "tpu", "gpu" or "cpu".
        backend: of Keras, "tensorflow" or "jax".
        replicas: how many cores; None for all that the runtime finds.
        address: which TPU, for TensorFlow's resolver.
        reasons: the steps of the decision, in order, for people.
        environment: what to set before Keras is imported.
    """

    kind: Literal["tpu", "gpu", "cpu"]
    backend: Literal["tensorflow", "jax"] = "tensorflow"
    replicas: int | None = 1
    address: TpuAddress = field(default_factory=TpuAddress)
    reasons: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def route(self) -> Route:
        """How a step is spread: Keras's DataParallel on JAX, else a strategy of TensorFlow's."""
        if self.replicas == 1 and (self.backend == "jax" or self.kind != "tpu"):
            return "single"
        if self.backend == "jax":
            return "data_parallel"
        return "tpu_strategy" if self.kind == "tpu" else "mirrored"


_THREAD_VARIABLES = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")


def choose_device(wanted: Kind | DeviceWish = "auto", environ: Mapping[str, str] = os.environ) -> DeviceChoice:
    """Decides what to train on. Starts a child process where something speaks of a TPU; imports nothing.

    Raises:
        DeviceError: what was asked for is not there, does not start, or is not installed.
    """
    wish = wanted if isinstance(wanted, DeviceWish) else DeviceWish(kind=wanted)
    backend = _wished_backend(wish, environ)
    if wish.replicas is not None and wish.replicas < 1:
        raise DeviceError(f"--replicas must be 1 or more; received {wish.replicas}")
    reasons = []
    tpu: Probe | None = None
    if wish.kind in ("auto", "tpu"):
        tpu, driver, step = _look_for_tpu(wish, backend, environ)
        reasons.append(step)
        if tpu is not None and tpu.cores:
            reasons.append(f"chosen: tpu ({_because(wish)})")
            return _on_tpu(wish, driver, tpu.cores, reasons, environ)
    else:
        reasons.append(f"TPU: not looked for (--device {wish.kind})")
    gpus = gpu_names(environ) if wish.kind in ("auto", "gpu") else []
    if wish.kind != "tpu":
        reasons.append(_gpu_step(wish, gpus))
    if wish.kind == "tpu" or (wish.kind == "gpu" and not gpus):
        raise DeviceError(_not_there(wish.kind, reasons))
    kind: Literal["gpu", "cpu"] = "gpu" if gpus else "cpu"
    reasons.append(f"chosen: {kind} ({_because(wish)})")
    return _on_host(wish, kind, len(gpus), backend, reasons, environ)


def _because(wish: DeviceWish) -> str:
    return "asked for" if wish.kind != "auto" else "the first that is there"


def _wished_backend(wish: DeviceWish, environ: Mapping[str, str]) -> Backend:
    if wish.backend != "auto":
        return wish.backend
    named = environ.get(BACKEND_VARIABLE) or "auto"
    if named not in ("auto", "tensorflow", "jax"):
        raise DeviceError(
            f"Keras's backend must be tensorflow or jax here; {BACKEND_VARIABLE} is {named!r}. Unset it, or give "
            "--backend tensorflow"
        )
    return named  # type: ignore[return-value]


def _look_for_tpu(wish: DeviceWish, backend: Backend, environ: Mapping[str, str]) -> tuple[Probe | None, str, str]:
    """The probe (None: there was nothing to probe), the backend that drives the TPU, and the step for people."""
    signs = tpu_signs(environ)
    if wish.address.name is not None:
        signs.insert(0, f"--tpu-name {wish.address.name}")
    packages = tpu_packages()
    usable = [name for name in packages if backend in ("auto", name)]
    installed = "; ".join(packages.values()) or "neither jax with libtpu nor tensorflow-tpu"
    if not signs and wish.kind == "auto":
        return None, "", f"TPU: no sign of one (no variable, device file or PCI chip), so not probed ({installed})"
    step = f"TPU: {', '.join(signs) or 'no sign of one, looked for as asked'}"
    if not usable:
        which = f" for the {backend} backend" if backend != "auto" else ""
        step += f"; not probed, as nothing that drives one{which} is installed ({installed}): {INSTALL}"
        return None, "", step
    probe = None
    for name in usable:
        if name == "jax" and wish.address.name not in (None, "local"):
            step += f"; jax not probed: it knows the chips of its own host only, not {wish.address.name!r}"
            continue
        probe = probe_tpu(name, wish.address, {**environ, **_probe_environment(name)}, wish.probe_seconds)
        step += f"; {probe.reason} ({packages[name]})"
        if probe.cores:
            return probe, name, step
    return probe, "", step


def _probe_environment(backend: str) -> dict[str, str]:
    environment = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
    return {**environment, "JAX_PLATFORMS": "tpu"} if backend == "jax" else environment


def _gpu_step(wish: DeviceWish, gpus: list[str]) -> str:
    if wish.kind not in ("auto", "gpu"):
        return f"GPU: not looked for (--device {wish.kind})"
    return f"GPU: {'; '.join(gpus) or 'none (nvidia-smi lists none)'}"


def _not_there(kind: str, reasons: list[str]) -> str:
    return (
        f"--device {kind} needs a {kind.upper()} that works; there is none here. {'. '.join(reasons)}. "
        "Use --device auto or --device cpu to train without"
    )


def _on_tpu(wish: DeviceWish, driver: str, cores: int, reasons: list[str], environ: Mapping[str, str]) -> DeviceChoice:
    if wish.replicas is not None and wish.replicas > cores:
        raise DeviceError(f"--replicas must be at most the TPU's {cores} cores; received {wish.replicas}")
    environment = {**_common(environ), BACKEND_VARIABLE: driver, "CUDA_VISIBLE_DEVICES": "-1"}
    if driver == "jax":
        # The host's own platform beside it: what need not be on the TPU is built there.
        environment["JAX_PLATFORMS"] = "tpu,cpu"
    elif wish.replicas not in (None, cores):
        raise DeviceError(
            f"TPUStrategy takes the whole TPU, {cores} cores; received --replicas {wish.replicas}. Leave it out, or "
            "use --backend jax"
        )
    choice = DeviceChoice(
        kind="tpu",
        backend=driver,  # type: ignore[arg-type]
        replicas=wish.replicas or cores,
        address=wish.address,
        environment=environment,
    )
    return _explained(choice, reasons)


def _on_host(
    wish: DeviceWish,
    kind: Literal["gpu", "cpu"],
    gpus: int,
    backend: Backend,
    reasons: list[str],
    environ: Mapping[str, str],
) -> DeviceChoice:
    environment = _common(environ)
    environment[BACKEND_VARIABLE] = "jax" if backend == "jax" else "tensorflow"
    if kind == "gpu":
        if backend == "jax":
            raise DeviceError(
                "the JAX backend trains on a TPU or on the CPU here, not on GPUs; use --backend tensorflow for the "
                "GPUs, or --device cpu"
            )
        if wish.replicas is not None and wish.replicas > gpus:
            raise DeviceError(f"--replicas must be at most the {gpus} GPUs; received {wish.replicas}")
        environment["TF_FORCE_GPU_ALLOW_GROWTH"] = environ.get("TF_FORCE_GPU_ALLOW_GROWTH", "true")
        return _explained(DeviceChoice(kind="gpu", replicas=wish.replicas, environment=environment), reasons)
    environment["CUDA_VISIBLE_DEVICES"] = environ.get("CUDA_VISIBLE_DEVICES", "-1")
    replicas = wish.replicas or 1
    if backend == "jax":
        if installed_version("jax") is None:
            raise DeviceError(f"the JAX backend needs the package jax, which is not installed: {INSTALL}")
        environment["JAX_PLATFORMS"] = "cpu"
        if replicas > 1:
            flag = f"--xla_force_host_platform_device_count={replicas}"
            environment["XLA_FLAGS"] = f"{environ.get('XLA_FLAGS', '')} {flag}".strip()
    choice = DeviceChoice(
        kind="cpu",
        backend="jax" if backend == "jax" else "tensorflow",
        replicas=replicas,
        environment=environment,
    )
    return _explained(choice, reasons)


_ROUTES: Mapping[Route, str] = {
    "single": "one device",
    "mirrored": "MirroredStrategy",
    "tpu_strategy": "TPUStrategy",
    "data_parallel": "DataParallel",
}


def _explained(choice: DeviceChoice, reasons: list[str]) -> DeviceChoice:
    """The choice with its reasons and the last one: the route."""
    count = "all GPUs" if choice.replicas is None else f"{choice.replicas} replica{'s' * (choice.replicas != 1)}"
    logical = " (logical devices that share the processor)" if choice.kind == "cpu" and choice.replicas != 1 else ""
    route = f"route: Keras on {choice.backend}, {_ROUTES[choice.route]}, {count}{logical}"
    return replace(choice, reasons=(*reasons, route))


def share_processor(choice: DeviceChoice, workers: int, environ: Mapping[str, str] = os.environ) -> DeviceChoice:
    """The choice for each of several workers on the processor: an equal share of its threads.

    With all threads each, they would wait for one another. What the environment sets stays as it is.
    """
    if workers == 1 or choice.kind != "cpu":
        return choice
    threads = str(max(1, _processors() // workers))
    shares = {name: environ.get(name, threads) for name in _THREAD_VARIABLES}
    return replace(choice, environment={**choice.environment, **shares})


def _processors() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _common(environ: Mapping[str, str]) -> dict[str, str]:
    # oneDNN is off by default on processors without VNNI, where it is about twice as fast all the same.
    wished = {"TF_ENABLE_ONEDNN_OPTS": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    return {name: environ.get(name, value) for name, value in wished.items()}
