"""What to train on, and why: decided before any deep-learning library is imported here.

Cheap signs come first (environment, device files, installed packages); where they speak of a TPU, a child process
with a time limit asks the runtime itself.
"""

from workbench.devices.choice import Backend, DeviceChoice, DeviceWish, Kind, Route, choose_device, share_processor
from workbench.devices.probe import TpuAddress

__all__ = ["Backend", "DeviceChoice", "DeviceWish", "Kind", "Route", "TpuAddress", "choose_device", "share_processor"]
