"""Functions of the host that a program calls, as a plugin calls them."""

import ctypes

import numpy as np
import pytest
from tests.runtime.fake_pjrt import Fake

from curta.runtime.pjrt.abi import structs
from curta.runtime.pjrt.host_calls import Channel, DeviceHostCall, HostCalls

FLOAT = np.dtype(np.float32)
SEND = ctypes.CFUNCTYPE(
    *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    *(ctypes.c_size_t, ctypes.c_bool, ctypes.c_void_p),
)
RECEIVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
ERROR = ctypes.CFUNCTYPE(
    ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t
)


class Plugin:
    """The plugin's part: it sends, and asks for what it is to receive."""

    def __init__(self, function, sends, receives, devices=1):
        self.received, self.destroyed, self.deleted, self.errors = {}, [], 0, []
        rules = {
            "CopyToDeviceStream_AddChunk": self.add_chunk,
            "CopyToDeviceStream_Destroy": lambda a: self.destroyed.append(a.stream),
        }
        self.library = Fake(rules).library()
        call = DeviceHostCall(function, tuple(sends), tuple(receives))
        self.calls = HostCalls(self.library, [call])
        self.options = self.library.struct("ExecuteOptions")
        self.calls.install(self.options, devices)
        self.deleter = DELETER(self.delete)
        self.error = ERROR(lambda code, said, n: self.errors.append((code, said)) or 7)
        self.make_error = ctypes.c_void_p(self.address(self.error))

    def address(self, function):
        return ctypes.cast(function, ctypes.c_void_p).value

    def delete(self, data, argument):
        self.deleted += 1

    def add_chunk(self, args):
        chunk = structs()["Chunk"].from_address(args.chunk)
        self.received[args.stream] = ctypes.string_at(chunk.data, chunk.size)
        DELETER(chunk.deleter)(chunk.data, chunk.deleter_arg)
        args.transfer_complete = None

    def entry(self, kind, device, number):
        rows = getattr(self.options, f"{kind.lower()}_callbacks")
        row = (ctypes.c_void_p * (device + 1)).from_address(rows)[device]
        count = getattr(self.options, f"num_{kind.lower()}_ops")
        found = (structs()[f"{kind}CallbackInfo"] * count).from_address(row)
        return next(info for info in found if info.channel_id == number)

    def send(self, number, array, device=0, parts=1):
        info = self.entry("Send", device, number)
        data = array.tobytes()
        step = len(data) // parts
        for i in range(parts):
            part = ctypes.create_string_buffer(data[i * step :][:step], step)
            chunk = structs()["Chunk"](
                ctypes.addressof(part), step, self.address(self.deleter), None
            )
            failed = SEND(info.send_callback)(
                ctypes.addressof(chunk),
                ctypes.addressof(self.make_error),
                *(len(data), i == parts - 1, info.user_arg),
            )
        return failed

    def receive(self, number, stream, device=0):
        info = self.entry("Recv", device, number)
        RECEIVE(info.recv_callback)(stream, info.user_arg)
        return self.received.get(stream)


def test_operands_are_sent_and_results_received():
    def add(x, y):
        return [x + y, (x * y).sum()]

    x, y = np.arange(6, dtype=FLOAT).reshape(2, 3), np.ones((2, 3), FLOAT)
    sends = [Channel(2, (2, 3), FLOAT), Channel(3, (2, 3), FLOAT)]
    receives = [Channel(4, (2, 3), FLOAT), Channel(5, (), FLOAT)]
    plugin = Plugin(add, sends, receives)
    for _ in range(2):  # in a loop, say
        assert plugin.send(3, y) is None
        assert plugin.send(2, x, parts=3) is None
        assert plugin.receive(5, 50) == np.float32(15).tobytes()
        assert plugin.receive(4, 40) == (x + y).tobytes()
    assert plugin.destroyed == [50, 40] * 2 and plugin.deleted == 8
    assert not plugin.calls._chunks


def test_devices_are_kept_apart():
    channel, result = Channel(2, (2,), FLOAT), Channel(3, (2,), FLOAT)
    plugin = Plugin(lambda x: [2 * x], [channel], [result], devices=2)
    for device in (0, 1):
        plugin.send(2, np.full(2, device, FLOAT), device)
    for device in (1, 0):
        found = plugin.receive(3, 10 + device, device)
        assert found == np.full(2, 2 * device, FLOAT).tobytes()


def test_an_exception_becomes_an_error_of_the_plugin():
    def fail(x):
        raise ValueError("no")

    plugin = Plugin(fail, [Channel(2, (), FLOAT)], [Channel(3, (), FLOAT)])
    assert plugin.send(2, np.zeros((), FLOAT)) == 7
    assert plugin.errors == [(13, b"no")]
    assert plugin.receive(3, 30) is None  # nobody waits for ever
    assert plugin.destroyed == [30]


def test_results_of_another_number_are_an_error():
    plugin = Plugin(lambda x: [], [Channel(2, (), FLOAT)], [Channel(3, (), FLOAT)])
    assert plugin.send(2, np.zeros((), FLOAT)) == 7
    ((code, said),) = plugin.errors
    assert code == 13 and b"zip()" in said


@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_channels_know_their_bytes(shape):
    assert Channel(2, shape, FLOAT).nbytes == np.zeros(shape, FLOAT).nbytes
