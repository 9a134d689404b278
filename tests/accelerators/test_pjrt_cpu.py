"""Tier C: the binding on a client for CPUs, by the shim over tensorflow-cpu."""

import ctypes
import gc
import os
import subprocess
import sys
import textwrap
import threading

import ml_dtypes
import numpy as np
import pytest
from tests.accelerators import shim, texts
from tests.accelerators.texts import PROGRAMS, random

from curta.errors import JaxRuntimeError
from curta.runtime.pjrt import callbacks
from curta.runtime.pjrt.buffers import dtype_of, found_buffer
from curta.runtime.pjrt.client import PluginClient
from curta.runtime.pjrt.dlpack import Shared, cuda_array_interface, from_dlpack
from curta.runtime.pjrt.library import open_library
from curta.runtime.pjrt.options import compile_options
from curta.runtime.pjrt.values import array_of, bytes_of

ONE = compile_options(devices=[0])


@pytest.fixture(scope="module")
def library():
    return open_library(shim.build(), "shim")


@pytest.fixture(scope="module")
def client(library):
    client = PluginClient(library, {"cpu_device_count": 4})
    yield client
    client.close()


@pytest.fixture(scope="module")
def add(client):
    return client.compile(texts.ADD, ONE)


@pytest.fixture(autouse=True)
def nothing_is_left(request):
    """No test leaves a buffer behind."""
    yield
    if "client" in request.fixturenames:
        client = request.getfixturevalue("client")
        gc.collect()
        client.sweep()
        assert not client.buffers


def test_devices_and_memories(client):
    assert client.platform == "cpu" and client.process_index == 0
    assert [d.id for d in client.devices] == [0, 1, 2, 3]
    device = client.local_devices[2]
    assert device.attributes == {"shim": 2} and device.kind == "cpu"
    assert device.process_index == 0 and device.local_hardware_id == 2
    assert device.default_memory in device.memories
    assert {m.kind for m in device.memories} >= {"device"} or device.memories
    assert all(device in m.devices for m in device.memories)
    kinds = [m.kind for m in device.memories]
    assert device.memory(kinds[0]) is device.memories[0]
    with pytest.raises(JaxRuntimeError, match="Could not find memory addressable"):
        device.memory("nowhere")
    assert device.memory_stats() is None  # the client for CPUs does not count
    assert client.default_assignment(2, 2) == [[0, 1], [2, 3]]
    assert "cpu" in repr(client) and repr(device)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(client, name):
    program = PROGRAMS[name]
    loaded = client.compile(program.text, ONE)
    results = loaded(*[client.put(np.asarray(x)) for x in program.operands])
    for found, expected in zip(
        results, program.expected(*program.operands), strict=True
    ):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)


NARROW = [getattr(ml_dtypes, name) for name in (
    *("bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e4m3b11fnuz"),
    *("float8_e5m2fnuz", "float8_e4m3fnuz", "float8_e4m3", "float8_e3m4"),
    *("float8_e8m0fnu", "float4_e2m1fn", "int4", "uint4", "int2", "uint2"),
)]  # fmt: skip
WIDE = ["bool", *"bhilBHILefdFD"]


@pytest.mark.parametrize("dtype", [*WIDE, *NARROW], ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("shape", [(), (0, 3), (3, 5)], ids=str)
def test_arrays_there_and_back(client, dtype, shape):
    array = np.arange(int(np.prod(shape))).reshape(shape) % 2
    array = array.astype(dtype)
    buffer = client.put(array)
    assert buffer.dtype == array.dtype and buffer.shape == shape
    back = buffer.numpy()
    assert back.dtype == array.dtype
    assert back.tobytes() == array.tobytes()


def test_arrays_that_are_not_dense(client):
    array = random(6, 8)
    for view in (array.T, array[::-2, 1::3], array[:, 2], array[3:]):
        np.testing.assert_array_equal(client.put(view).numpy(), view)


def test_an_array_may_change_once_it_is_put(client):
    array = np.zeros(1 << 16, np.float32)
    buffer = client.put(array)
    array[:] = 1
    assert not buffer.numpy().any()


def test_memory_of_immutable_arrays_is_used(client):
    raw = np.zeros(4096 + 64, np.uint8)
    start = -raw.ctypes.data % 64
    array = raw[start : start + 4096].view(np.float32)
    buffer = client.put(array, immutable=True)
    assert buffer.address() == array.ctypes.data
    count = sys.getrefcount(array)
    del buffer
    gc.collect()
    client.sweep()
    assert sys.getrefcount(array) < count and not client.waiting


def test_dtypes_that_cannot_be_put(client):
    with pytest.raises(TypeError, match="arrays of dtype object cannot be on devices"):
        client.put(np.array([None]))
    with pytest.raises(TypeError, match="no dtype of NumPy is PJRT's element type 999"):
        dtype_of(999)


def test_other_devices(client):
    x = random(3)
    for device in client.devices:
        buffer = client.put(x, device)
        assert buffer.device is device
        assert buffer.memory is device.default_memory
        assert buffer.is_on_cpu and buffer.nbytes_on_device >= 12
    copy = client.put(x).copy_to(client.devices[3])
    assert copy.device is client.devices[3]
    np.testing.assert_array_equal(copy.numpy(), x)
    memory = client.devices[1].default_memory
    assert client.put(x, memory).device is client.devices[1]
    assert copy.copy_to(memory).device is client.devices[1]


def test_events(client, add):
    x = client.put(random(4))
    (y,) = add(x, x)
    y.block_until_ready()
    assert y.is_ready() and not y.is_deleted()
    y.start_transfer()
    y.start_transfer()
    np.testing.assert_array_equal(y.numpy(), 2 * x.numpy())
    np.testing.assert_array_equal(y.numpy(), 2 * x.numpy())
    y.start_transfer()  # nobody waits for it


def test_deleted(client, add):
    x = client.put(random(4))
    x.delete()
    assert x.is_deleted()
    for use in (x.numpy, lambda: add(x, x), x.block_until_ready):
        with pytest.raises(JaxRuntimeError):
            use()


def donating(alias="tf.aliasing_output = 0 : i32"):
    return texts.ADD.replace("%a: tensor<4xf32>", f"%a: tensor<4xf32> {{{alias}}}", 1)


def test_donation(client):
    loaded = client.compile(donating(), ONE)
    x, y = client.put(random(4)), client.put(random(4, seed=1))
    expected = x.numpy() + y.numpy()
    (kept,) = loaded(x, y, keep=[0])
    assert not x.is_deleted()
    address = x.address()
    (z,) = loaded(x, y)
    assert x.is_deleted() and not y.is_deleted()
    assert z.address() == address
    np.testing.assert_array_equal(z.numpy(), expected)
    np.testing.assert_array_equal(kept.numpy(), expected)
    with pytest.raises(JaxRuntimeError, match="(?i)donate"):
        loaded(z, z)


def test_lent_memory_is_not_donated(client):
    loaded = client.compile(donating(), ONE)
    x = client.put(random(4))
    shared = np.from_dlpack(Shared(x))
    before = shared.copy()
    (y,) = loaded(x, x)
    assert not x.is_deleted()
    np.testing.assert_array_equal(shared, before)
    np.testing.assert_array_equal(y.numpy(), 2 * before)


def test_wrong_operands(client, add):
    x, small = client.put(random(4)), client.put(random(3))
    for operands in ((x,), (x, x, x), (x, small)):
        with pytest.raises(JaxRuntimeError, match="INVALID_ARGUMENT"):
            add(*operands)
    with pytest.raises(TypeError, match="expected a Buffer, got ndarray"):
        add(x, random(4))
    elsewhere = client.put(random(4), client.devices[1])
    with pytest.raises(JaxRuntimeError, match="INVALID_ARGUMENT"):
        add(x, elsewhere)


def test_buffers_of_other_clients(library, client, add):
    other = PluginClient(library, {"cpu_device_count": 1})
    x = client.put(random(4))
    with pytest.raises(JaxRuntimeError, match="a buffer of another client"):
        add(x, other.put(random(4)))
    other.close()


def test_programs_that_are_wrong(client):
    for text, said in (
        (texts.NOT_STABLEHLO, "nosuchop"),
        (texts.NOT_TYPED, "contracting"),
        ("", ""),
        (b"\xff\x00", ""),
    ):
        with pytest.raises(JaxRuntimeError, match=f"(?s)^[A-Z_]+: .*{said}"):
            client.compile(text, ONE)
    with pytest.raises(JaxRuntimeError, match="INVALID_ARGUMENT: .*deserialize"):
        client.compile(texts.ADD, b"\xff\xff")
    with pytest.raises(JaxRuntimeError, match="Unexpected option name"):
        PluginClient(client.library, {"nonsense": 1})


def test_what_goes_wrong_while_a_program_runs_is_raised_by_who_waits(client, add):
    bad = failed(client)
    (result,) = add(bad, bad)
    (next_,) = add(result, result)
    for use in (next_.block_until_ready, next_.numpy, result.numpy):
        with pytest.raises(JaxRuntimeError, match="^[A-Z_]+: .*cosmic rays"):
            use()
    assert next_.is_ready()


def failed(client):
    """A buffer whose computation went wrong."""
    dims, message = array_of([4]), bytes_of(b"cosmic rays")

    made = client.library.call(
        "Client_CreateErrorBuffer",
        client=client.address,
        error_code=15,
        error_message=ctypes.addressof(message),
        error_message_size=11,
        shape_dims=ctypes.addressof(dims),
        shape_num_dims=1,
        shape_element_type=11,
        memory=client.devices[0].default_memory.address,
    )
    return found_buffer(client, made.buffer)


def test_what_programs_say_of_themselves(client):
    loaded = client.compile(texts.MATMUL, ONE)
    assert loaded.name == "m" and loaded.results == [((8, 4), np.dtype("float32"))]
    assert loaded.devices == client.devices[:1]
    with loaded.executable() as program:
        assert (program.replicas, program.partitions) == (1, 1)
        assert program.memory_kinds == ["device"]
        assert program.memory_stats()["argument_size_in_bytes"] == 4 * (8 + 4) * 16
        assert program.code_size() is not None
        kind, text = program.optimized()
        assert kind == "hlo_text" and b"ENTRY" in text
        with pytest.raises(
            JaxRuntimeError, match="UNIMPLEMENTED: .* no function PJRT_"
        ):
            program.fingerprint  # noqa: B018


def test_programs_are_kept_and_loaded_again(client):
    data = client.compile(texts.MATMUL, ONE).serialize()
    loaded = client.deserialize(data)
    program = PROGRAMS["matmul"]
    (found,) = loaded(*map(client.put, program.operands))
    np.testing.assert_allclose(
        found.numpy(), program.expected(*program.operands)[0], rtol=1e-5, atol=1e-6
    )
    with pytest.raises(JaxRuntimeError):
        client.deserialize(b"nonsense")


# ---- several devices


@pytest.mark.parametrize("text", [texts.SHARDY, texts.GSPMD], ids=["sdy", "mhlo"])
def test_sharded(client, text):
    a, b = random(8, 16), random(16, 4)
    options = compile_options(
        partitions=4, devices=range(4), shardy=text is texts.SHARDY
    )
    loaded = client.compile(text, options)
    assert loaded.results == [((2, 4), np.dtype("float32"))]
    parts = [
        [client.put(a[:, 4 * i :][:, :4], d), client.put(b[4 * i :][:4], d)]
        for i, d in enumerate(loaded.devices)
    ]
    rows = [out.numpy() for (out,) in loaded.sharded(parts)]
    np.testing.assert_allclose(np.concatenate(rows), np.tanh(a @ b), rtol=1e-5)
    with pytest.raises(TypeError, match="runs on 4 devices: use `sharded`"):
        loaded(*parts[0])
    with pytest.raises(TypeError, match="got operands for 3"):
        loaded.sharded(parts[:3])
    with pytest.raises(TypeError, match="different numbers of operands"):
        loaded.sharded([*parts[:3], parts[3][:1]])


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 1, 0, 2]], ids=str)
def test_collectives(client, order):
    x = random(8, 4)
    blocks = x.reshape(4, 2, 4)
    manual = client.compile(texts.MANUAL, compile_options(1, 4, order))
    replicas = client.compile(texts.REPLICAS, compile_options(4, 1, order))
    assert [d.id for d in manual.devices] == order or len(manual.devices) == 4
    parts = [[client.put(blocks[i], d)] for i, d in enumerate(manual.devices)]
    for (out,) in manual.sharded(parts):
        np.testing.assert_allclose(out.numpy(), blocks.sum(0), rtol=1e-5)
    parts = [[client.put(blocks[i], d)] for i, d in enumerate(replicas.devices)]
    for device, (out, i) in zip(replicas.devices, replicas.sharded(parts)):
        np.testing.assert_allclose(out.numpy(), blocks.sum(0), rtol=1e-5)
        assert i.numpy() == order.index(device.id)


# ---- other libraries


def test_dlpack_out(client, add):
    x = random(4)
    (buffer,) = add(client.put(x), client.put(x))
    shared = np.from_dlpack(Shared(buffer))
    assert shared.ctypes.data == buffer.address() and buffer.is_lent
    np.testing.assert_array_equal(shared, 2 * x)
    del buffer  # lives on
    gc.collect()
    np.testing.assert_array_equal(shared, 2 * x)
    with pytest.raises(BufferError, match="DLPack has no type for dtype int4"):
        Shared(client.put(np.zeros(3, ml_dtypes.int4))).__dlpack__()


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_dlpack_that_nobody_takes(client, version):
    buffer = client.put(random(4))
    capsule = Shared(buffer).__dlpack__(max_version=version)
    assert buffer.is_lent
    del capsule
    assert not buffer.is_lent


class Aligned:
    """An array of NumPy at a multiple of 64 bytes."""

    def __init__(self, values):
        raw = np.zeros(values.nbytes + 64, np.uint8)
        start = -raw.ctypes.data % 64
        self.array = raw[start : start + values.nbytes].view(values.dtype)
        self.array = self.array.reshape(values.shape)
        self.array[...] = values


def test_dlpack_in(client, add):
    array = Aligned(random(4)).array
    buffer = from_dlpack(client, array, client.devices[0])
    assert buffer.address() == array.ctypes.data
    np.testing.assert_array_equal(add(buffer, buffer)[0].numpy(), 2 * array)
    count = sys.getrefcount(array)
    del buffer
    gc.collect()
    assert sys.getrefcount(array) <= count
    with pytest.raises(ValueError, match=r"strides \[2\] .* copy it first"):
        from_dlpack(client, random(8)[::2], client.devices[0])


def test_cuda_array_interface_is_of_cuda(client):
    buffer = client.put(random(4))
    with pytest.raises(AttributeError, match="only defined for NVidia GPU buffers"):
        cuda_array_interface(buffer)


# ---- threads, leaks, ends


def test_threads(client, add):
    wrong = []

    def work(seed):
        x = random(4, seed=seed)
        for _ in range(200):
            operand = client.put(x)
            (y,) = add(operand, operand)
            (z,) = add(y, operand)
            if not np.allclose(z.numpy(), 3 * x):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not wrong


def test_nothing_leaks(client, add):
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    big = client.compile(texts.elementwise("add", "f32", "262144x"), ONE)
    array = np.zeros(262144, np.float32)

    def rounds(n):
        for _ in range(n):
            x = client.put(array, immutable=True)
            (y,) = big(x, x)
            y.numpy()
            y.start_transfer()

    rounds(30)
    before = resident()
    rounds(300)  # 900 MB if the buffers stayed
    assert resident() - before < 100 << 20


def test_buffers_die_in_callbacks_without_harm(client):
    token = object()
    callbacks.running.add(token)
    try:
        buffer = client.put(random(4))
        del buffer
        assert len(client.buffers) == len(client.waiting) == 1
    finally:
        callbacks.running.discard(token)


def test_buffers_that_die_in_callbacks_hold_no_shutdown():
    """Their memory of the host is the plugin's until they are freed, later."""
    done = run(
        """
        from curta.runtime.pjrt import callbacks
        room = np.zeros(64, np.float32)
        begin = -room.ctypes.data % 64 // 4
        y = client.put(room[begin : begin + 16], immutable=True)
        assert y.more.host is not None
        callbacks.running.add(0)
        del y
        callbacks.running.discard(0)
        assert len(client.waiting) == 2
        client.wait_for_programs()
        print("done")
        """,
        timeout=60,
    )
    assert done.stdout == "done\n", done.stderr


def run(code, timeout=300):
    """The output of a Python process that runs code."""
    given = {**os.environ, "SHIM": str(shim.build()), "TF_CPP_MIN_LOG_LEVEL": "2"}
    head = """
        import os, numpy as np
        from tests.accelerators import texts
        from curta.runtime.pjrt.client import Client
        from curta.runtime.pjrt.library import open_library
        from curta.runtime.pjrt.options import compile_options
        client = Client(open_library(os.environ["SHIM"], "shim"))
        add = client.compile(texts.ADD, compile_options())
        x = client.put(np.ones(4, np.float32), immutable=True)
    """
    code = textwrap.dedent(head) + textwrap.dedent(code)
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=given,
        timeout=timeout,
    )


def test_processes_end_in_order():
    done = run("""
        from curta.runtime.pjrt.dlpack import Shared
        shared = np.from_dlpack(Shared(x))
        cycle = [add(x, x)]; cycle.append(cycle)
        print(cycle[0][0].numpy())
    """)
    assert (done.returncode, done.stdout) == (0, "[2. 2. 2. 2.]\n"), done.stderr
    assert "Error" not in done.stderr


def test_a_closed_client_says_so():
    done = run("""
        client.close(); client.close()
        for use in (lambda: add(x, x), x.numpy, lambda: client.put(np.zeros(1)),
                    lambda: client.compile("", b""), client.topology):
            try: use()
            except RuntimeError as error: print(error)
    """)
    said = "FAILED_PRECONDITION: the client of the plugin was closed\n"
    assert (done.returncode, done.stdout) == (0, 5 * said), done.stderr


def test_forked_processes_are_told():
    done = run("""
        add(x, x)
        pid = os.fork()
        if not pid:
            try: add(x, x)
            except RuntimeError as error: print(error, flush=True)
            del x
            os._exit(0)
        os.waitpid(pid, 0)
    """)
    assert done.stdout.startswith("FAILED_PRECONDITION: this process was forked from")
    assert done.returncode == 0, done.stderr
