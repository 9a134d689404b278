"""The platforms and devices that are sent with functions to other processes.

None is sent, as all devices are those of this process.
"""

from collections.abc import Sequence

from curta.extend import backend as xb  # noqa: F401
from curta.runtime.devices import Device

DeviceList = Sequence[Device]
