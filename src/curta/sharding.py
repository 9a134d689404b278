"""How arrays are laid out over devices."""

from curta.runtime.devices import Sharding as Sharding
from curta.runtime.devices import SingleDeviceSharding as SingleDeviceSharding
