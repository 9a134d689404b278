"""How arrays are laid out over devices."""

from curta.runtime.devices import (
    Sharding as Sharding,
    SingleDeviceSharding as SingleDeviceSharding,
)
