"""Where plugins are looked for, and what a client of one is made with."""

import ctypes
import json
import logging
import os

import pytest
from tests.runtime.fake_pjrt import Fake, FakeError

from curta.hosts.engine import Engine
from curta.runtime.pjrt import platforms, plugins
from curta.runtime.pjrt.abi import structs
from curta.runtime.pjrt.plugins import Plugin, discover, find


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """`installed("jax_plugins/x/lib.so")` makes files of packages that are found."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(*files):
        for file in files:
            path = tmp_path / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("raise ImportError('it imports jax')")
        return tmp_path

    return make


def test_packages_in_the_namespace(installed):
    folder = installed(
        *("jax_plugins/xla_cuda13/__init__.py", "jax_plugins/ours/__init__.py"),
        *("jax_plugins/xla_cuda13/xla_cuda_plugin.so", "jax_plugins/ours/my_pjrt.so"),
    )
    found = discover({})
    assert found["cuda"].path == str(
        folder / "jax_plugins/xla_cuda13/xla_cuda_plugin.so"
    )
    assert found["ours"].path == str(folder / "jax_plugins/ours/my_pjrt.so")
    assert found["cuda"].priority > found["ours"].priority


def test_entry_points(installed):
    folder = installed("mine/__init__.py", "mine/pjrt_c_api_mine_plugin.so")
    info = folder / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[jax_plugins]\nmine = mine\n")
    found = discover({})["mine"]
    assert found == Plugin(
        "mine", str(folder / "mine/pjrt_c_api_mine_plugin.so"), "entry point mine"
    )


def test_a_package_without_a_library_is_said(installed, caplog):
    installed("jax_plugins/strange/__init__.py")
    with caplog.at_level(logging.WARNING):
        assert "strange" not in discover({})
    assert "name it by PJRT_NAMES_AND_LIBRARY_PATHS" in caplog.text


def test_the_environment_names_plugins(installed, tmp_path, caplog):
    installed("jax_plugins/a/__init__.py", "jax_plugins/a/a_pjrt.so")
    described = tmp_path / "b.json"
    said = {"library_path": "/b.so", "create_options": {"threads": 3, "slow": False}}
    described.write_text(json.dumps(said))
    named = f"a{os.pathsep}/other.so,b{os.pathsep}{described},nonsense"
    with caplog.at_level(logging.WARNING):
        found = discover({"PJRT_NAMES_AND_LIBRARY_PATHS": named})
    assert found["a"].path == "/other.so" and found["b"].path == "/b.so"
    assert found["b"].create_options({}) == {"threads": 3, "slow": False}
    assert "'nonsense' is not of the form name:path" in caplog.text
    described.write_text("{}")
    with pytest.raises(ValueError, match='has to say a plugin\'s "library_path"'):
        discover({"PJRT_NAMES_AND_LIBRARY_PATHS": named})


def test_libtpu(installed, tmp_path):
    folder = installed("libtpu/__init__.py", "libtpu/libtpu.so", "other.so")
    assert discover({})["tpu"].path == str(folder / "libtpu/libtpu.so")
    named = {"TPU_LIBRARY_PATH": str(tmp_path / "other.so")}
    assert discover(named)["tpu"].path == str(tmp_path / "other.so")


def test_names_and_aliases():
    cuda, other = Plugin("cuda", "/c.so", "test"), Plugin("other", "/o.so", "test")
    among = {"cuda": cuda, "other": other}
    assert find("gpu", among) is find("cuda", among) is cuda
    assert find("other", among) is other
    with pytest.raises(
        RuntimeError, match=r"curta\[cuda13\] or curta\[rocm7\]' brings"
    ):
        find("gpu", {"other": other})
    with pytest.raises(
        RuntimeError, match=r"Platforms present are: cpu,cuda,other\. N"
    ):
        find("nowhere", among)


def test_options_of_memory():
    said = {
        "XLA_PYTHON_CLIENT_ALLOCATOR": "BFC",
        "XLA_PYTHON_CLIENT_MEM_FRACTION": ".5",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "0",
        "XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB": "3",
    }
    assert Plugin("cuda", "", "").create_options(said) == {
        "platform_name": "cuda",
        "allocator": "bfc",
        "memory_fraction": 0.5,
        "preallocate": False,
        "collective_memory_size": 3 << 20,
    }
    assert Plugin("cuda", "", "").create_options({}) == {"platform_name": "cuda"}
    with pytest.raises(ValueError, match="Remove the latter one, it is deprecated"):
        platforms.memory_options({**said, "XLA_CLIENT_MEM_FRACTION": ".4"})
    with pytest.raises(ValueError, match="XLA_PYTHON_CLIENT_ALLOCATOR is 'mine'"):
        platforms.memory_options({"XLA_PYTHON_CLIENT_ALLOCATOR": "mine"})


def test_a_client_without_a_device_says_what_to_do(monkeypatch):
    def create(args):
        raise FakeError("FAILED_PRECONDITION", "No visible GPU devices.")

    fake = Fake({"Client_Create": create})
    monkeypatch.setattr(plugins, "_library", lambda path, name: fake.library())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(RuntimeError) as caught:
        Plugin("cuda", "/c.so", "entry point x").make_client()
    assert str(caught.value) == (
        "Unable to initialize backend 'cuda': FAILED_PRECONDITION: No visible GPU"
        " devices. (plugin /c.so, entry point x. What to do: CUDA_VISIBLE_DEVICES hides"
        " every GPU: unset it. JAX_PLATFORMS=cpu runs on the CPU instead.)"
    )


@pytest.mark.parametrize(
    ("name", "options"), [("ours", ["node_id=1", "num_nodes=3"]), ("tpu", [])]
)
def test_clients_of_several_processes_are_given_the_store(monkeypatch, name, options):
    made = []

    def create(args):
        made.append(args.kv_put_callback)
        entry, size = args.create_options, ctypes.sizeof(structs()["NamedValue"])
        for i in range(args.num_options):
            value = structs()["NamedValue"].from_address(entry + i * size)
            said = ctypes.string_at(value.name, value.name_size).decode()
            made.append(f"{said}={value.value}")
        raise FakeError("FAILED_PRECONDITION", "No device.")

    class OneOfThree(Engine):
        index, count, store = 1, 3, object()

    fake = Fake({"Client_Create": create})
    monkeypatch.setattr(plugins, "_library", lambda path, name: fake.library())
    monkeypatch.setattr(plugins, "find", lambda name: Plugin(name, "/o.so", "test"))
    monkeypatch.setattr(plugins, "of_process", OneOfThree)
    with pytest.raises(RuntimeError, match=r"No device\."):
        plugins.client(name)
    assert bool(made[0]) == bool(options) and made[1:] == options


def test_tpus_on_the_bus(tmp_path):
    for name, vendor, device in (("a", "0x1ae0", "0x0063"), ("b", "0x10de", "0x0063")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "vendor").write_text(vendor + "\n")
        (tmp_path / name / "device").write_text(device + "\n")
    assert platforms.tpu_chips(tmp_path) == 1


def test_every_platform_has_advice():
    for platform in platforms.PLATFORMS.values():
        assert platform.advice({})
        assert platform.options({}) is not None
    assert platforms.platform_of("mine").advice({}) == ""
