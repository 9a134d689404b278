"""Objects created once per process at first use, and the locks that guard them.

    @once
    def pool() -> Pool:
        return Pool()

`functools.cache` alone runs the function once more for a thread that comes while
another is in it, and the two go on with different objects. Here the first thread makes
the object and the others wait for it.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakSet, WeakValueDictionary

if TYPE_CHECKING:
    from functools import _lru_cache_wrapper

T = TypeVar("T")


def has_gil() -> bool:
    """Whether Python runs one thread at a time, so that reference counts are exact.

    Without the global interpreter lock a count that another thread reads may be too
    small. Then memory is used again when its owner is finalized (core/buffers.py), and
    native code that reads counts is not used (runtime/native_call.py).
    """
    enabled: bool = getattr(sys, "_is_gil_enabled", lambda: True)()
    return enabled


def snapshot(values: Iterable[T]) -> list[T]:
    """Return what a set, deque or table holds, which other threads may change.

    >>> snapshot({"a": 1})
    ['a']
    """
    while True:
        try:
            return [*values]
        except RuntimeError:  # it changed during the iteration
            continue


_ReentrantLock: Any = type(threading.RLock())


class Lock(_ReentrantLock):  # type: ignore[misc]
    """A lock that its holder may take again, and that a forked process finds free.

    A finalizer may run at any point, and may take a lock that its thread already holds.
    A forked process lacks the other threads, so the locks that they hold would never be
    released. Invariant: the data that a lock guards is consistent between any two
    statements, or is discarded if a thread does not finish.

    To enter it is one step of native code, of the class it is derived from: a signal
    cannot come when the lock is taken and nothing is there yet to release it.

    >>> lock = Lock()
    >>> with lock, lock:
    ...     pass
    """

    def __init__(self) -> None:
        super().__init__()
        _locks.add(self)

    def renew(self) -> None:
        """Free the lock if its thread does not exist in this process."""
        if self.acquire(blocking=False):  # free, or held by this thread
            self.release()
        else:
            self._at_fork_reinit()


_locks: WeakSet[Lock] = WeakSet()


def _renew_all() -> None:
    for lock in list(_locks):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)


def once(make: Callable[..., T]) -> _lru_cache_wrapper[T]:
    """Decorate a function that creates an object once per process.

    With hashable arguments there is one object for each. If the function raises, the
    error propagates and the next call tries again. An object that another thread was
    creating during a fork is created again in the child.

    >>> @once
    ... def registry():
    ...     return []
    >>> registry() is registry()
    True
    """
    lock = Lock()
    made: dict[Any, T] = {}

    @functools.wraps(make)
    def guarded(*args: Any) -> T:
        with lock:
            if args not in made:
                value = make(*args)
                # A signal handler may have come here meanwhile, in this thread.
                made.setdefault(args, value)
            return made[args]

    result = functools.cache(guarded)  # finds in native code what is made already
    result.__wrapped__ = make
    return result


if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property(functools.cached_property):
        """`functools.cached_property` without the lock that it has before Python 3.12.

        All objects of a class share that lock, and a forked process never gets it if
        another thread was computing the value of any of them. Here two threads may
        compute a value at once, and both get the first.
        """

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            return instance.__dict__.setdefault(self.attrname, self.func(instance))


class Interned(Generic[T]):
    """Interned values: equal values are one object while a reference to it exists.

    >>> class Name:
    ...     pass
    >>> names = Interned()
    >>> one = names.shared("x", Name())
    >>> names.shared("x", Name()) is one, names.get("y")
    (True, None)
    """

    get: Any

    def __init__(self) -> None:
        self._values: WeakValueDictionary[Hashable, T] = WeakValueDictionary()
        self._lock = Lock()
        self.get = self._values.get

    def shared(self, key: Hashable, fresh: T) -> T:
        """The object of a key: the one that is known, or else `fresh`."""
        with self._lock:  # `setdefault` is Python code, in which threads may change
            return self._values.setdefault(key, fresh)

    def values(self) -> list[T]:
        """All that somebody has."""
        with self._lock:
            return list(self._values.values())

    def clear(self) -> None:
        """Let the next ones be others."""
        with self._lock:
            self._values.clear()
