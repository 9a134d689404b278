"""Pending work of a plugin is awaited, by any reader."""

import threading

import numpy as np
import pytest
from tests.runtime.fake_pjrt import Fake, FakeError

from curta.errors import JaxRuntimeError
from curta.runtime.pjrt.called import NOTHING_CALLED, CalledByPrograms
from curta.runtime.pjrt.client import PluginClient


class Plugin:
    """A client with events that a test lets happen, by their numbers."""

    def __init__(self):
        self.asked, self.answer = threading.Event(), threading.Event()
        self.awaited, self.failing = [], set()
        rules = {
            "Client_Create": lambda args: setattr(args, "client", 1),
            "Client_Destroy": lambda args: None,
            "Event_IsReady": self.is_ready,
            "Event_Await": self.wait,
            "Event_Destroy": lambda args: None,
            "Buffer_Destroy": lambda args: None,
        }
        self.client = PluginClient(Fake(rules).library())

    def is_ready(self, args):
        self.asked.set()
        self.answer.wait(10)
        args.is_ready = False

    def wait(self, args):
        self.awaited.append(args.event)
        if args.event in self.failing:
            raise FakeError("INTERNAL", "it failed")


@pytest.fixture
def plugin():
    made = Plugin()
    yield made
    made.client.close()


@pytest.mark.parametrize("which", ["programs", "memory"])
def test_what_another_thread_looks_at_is_awaited(plugin, which):
    client, memory = plugin.client, CalledByPrograms()
    client.borrow(7, memory)
    sweeping = threading.Thread(target=client.sweep)
    sweeping.start()
    assert plugin.asked.wait(10)  # the other thread has taken the event
    threading.Timer(0.1, plugin.answer.set).start()
    if which == "programs":
        client.wait_for_programs()
    else:
        client.wait_for(memory)
    sweeping.join()
    assert plugin.awaited == [7]


def test_programs_that_failed_end_no_wait(plugin):
    plugin.failing = {7}
    for event in (7, 8):
        plugin.client.borrow(event, NOTHING_CALLED)
    plugin.client.wait_for_programs()
    assert plugin.awaited == [7, 8]
    plugin.client.borrow(7, memory := object())
    with pytest.raises(JaxRuntimeError, match="it failed"):
        plugin.client.wait_for(memory)


def test_memory_of_buffers_that_are_freed_later_is_not_awaited(plugin):
    """It would be for ever: the plugin lets go of it when the buffer is freed."""
    client = plugin.client
    client.borrow(7, np.zeros(3))
    client.borrow(8, NOTHING_CALLED)
    client.borrow(9, CalledByPrograms())
    client.wait_for_host_calls()
    assert plugin.awaited == [9]
    client.wait_for_programs()
    assert plugin.awaited == [9, 8]
