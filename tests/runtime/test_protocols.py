"""Models of the protocols of the pool and the queue; all their states are explored.

Each step is one atomic access of `thread_code.py` or `queue_code.py`, in the functions
of the same names there; fields have the names of the offsets. Spinning is left out, as
it only waits for what sleeping waits for. Sleeps end by being woken alone, though most
have a time limit as well: a lost wake-up is a state in which no thread continues.
"""

from __future__ import annotations

import pytest
from tests.runtime.model_checker import END, explore, sleep, wake

# ---- the pool: thread_code.py

NO_CHUNK = 99


def run_chunks(after):
    """`_run_chunks`; goes to the label `after` when no chunk is left."""

    def ticket(s, me):
        me["ticket"] = s["TICKET"]
        return "count"

    def count(s, me):
        me["count"] = s["COUNT"]
        return "function"

    def function(s, me):
        me["function"] = s["FUNCTION"]
        return "context"

    def context(s, me):
        me["context"] = s["CONTEXT"]
        return "crowded" if me["ticket"][1] < me["count"] else after

    def crowded(s, me):
        steps_back = me["rank"] >= 0 and me["rank"] + s["CALLERS"] > s["WANTED"]
        return "ticket" if steps_back else "attempt"

    def attempt(s, me):
        generation, index = me["ticket"]
        if s["TICKET"] != me["ticket"]:
            return "ticket"
        s["TICKET"] = (generation, index + 1)
        return "chunk"

    def chunk(s, me):
        assert me["function"] == me["context"], "one job's chunk with another's context"
        run = (me["context"], me["ticket"][1])
        assert run not in s["ran"], f"{run} ran twice"
        assert run[0] not in s["returned"], f"{run} after its job had returned"
        s["ran"] = tuple(sorted((*s["ran"], run)))
        return "done"

    def done(s, me):
        s["DONE"] += 1
        return "last" if s["DONE"] == me["count"] else "ticket"

    def last(s, me):
        if s["WAITING"]:
            wake(s, "DONE")
        return "ticket"

    steps = (ticket, count, function, context, crowded, attempt, chunk, done, last)
    return {step.__name__: step for step in steps}


def worker():
    """`_worker`; `seen` is the last value of WAKE."""

    def wait(s, me):
        return "sleepers" if s["WAKE"] == me["seen"] else "look"

    def sleepers(s, me):
        s["SLEEPERS"] += 1
        return "sleep"

    def sleep_(s, me):
        return sleep(s, "WAKE", me["seen"], "awake")

    def awake(s, me):
        s["SLEEPERS"] -= 1
        return "look"

    def look(s, me):
        before, me["seen"] = me["seen"], s["WAKE"]
        return "ticket" if me["seen"] != before else "wait"

    return run_chunks("wait") | {
        "wait": wait, "sleepers": sleepers, "sleep": sleep_, "awake": awake,
        "look": look,
    }  # fmt: skip


def caller(broken=None):
    """`_parallel_for` for each of the jobs in `me["jobs"]`, then the end.

    Job 1 has one chunk, job 2 has two, and so on.
    """

    def enter(s, me):
        if not me["jobs"]:
            return END
        s["CALLERS"] += 1
        return "busy" if s["CALLERS"] <= s["WANTED"] else "inline"

    def leave(s, me):
        s["CALLERS"] -= 1
        return "enter"

    def busy(s, me):
        if s["BUSY"]:
            return "inline"
        s["BUSY"] = 1
        return "publish" if broken != "no close" else "store_count"

    def inline(s, me):
        job, *others = me["jobs"]
        me["jobs"] = tuple(others)
        s["returned"] = tuple(sorted((*s["returned"], job)))
        s["ran"] = tuple(sorted((*s["ran"], *[(job, i) for i in range(job)])))
        return "leave"

    # `_publish`
    def publish(s, me):  # only the caller writes another generation, or NO_CHUNK
        s["TICKET"] = (s["TICKET"][0], NO_CHUNK)
        return "store_count"

    def store_count(s, me):
        s["COUNT"] = me["jobs"][0]
        return "store_function"

    def store_function(s, me):
        s["FUNCTION"] = me["jobs"][0]
        return "store_context"

    def store_context(s, me):
        s["CONTEXT"] = me["jobs"][0]
        return "store_done"

    def store_done(s, me):
        s["DONE"] = 0
        return "open"

    def open_(s, me):
        s["TICKET"] = (s["TICKET"][0] + 1, 0)
        return "wake"

    def wake_(s, me):
        s["WAKE"] += 1
        return "wake_sleepers"

    def wake_sleepers(s, me):
        if s["SLEEPERS"]:
            wake(s, "WAKE")
        return "ticket"

    # `_join`
    def join(s, me):
        return "free" if s["DONE"] == me["jobs"][0] else "waiting"

    def waiting(s, me):
        s["WAITING"] = 1
        return "join_done" if broken != "sleeps at once" else "join_late"

    def join_done(s, me):
        me["seen"] = s["DONE"]
        return "join_sleep" if me["seen"] != me["jobs"][0] else "not_waiting"

    def join_late(s, me):
        return sleep(s, "DONE", s["DONE"], "not_waiting")

    def join_sleep(s, me):
        return sleep(s, "DONE", me["seen"], "not_waiting")

    def not_waiting(s, me):
        s["WAITING"] = 0
        return "join"

    def free(s, me):
        job, *others = me["jobs"]
        assert all((job, i) in s["ran"] for i in range(job)), "a chunk was left out"
        me["jobs"] = tuple(others)
        s["returned"] = tuple(sorted((*s["returned"], job)))
        s["BUSY"] = 0
        return "leave"

    steps = (enter, leave, busy, inline, publish, store_count, store_function)
    steps += (
        store_context,
        store_done,
        wake_sleepers,
        join,
        waiting,
        join_done,
        join_late,
    )
    steps += (join_sleep, not_waiting, free)
    named = {step.__name__: step for step in steps} | {"open": open_, "wake": wake_}
    return run_chunks("join") | named


POOL = {
    "TICKET": (0, 0), "COUNT": 0, "FUNCTION": 0, "CONTEXT": 0, "DONE": 0, "WAKE": 0,
    "SLEEPERS": 0, "WAITING": 0, "BUSY": 0, "CALLERS": 0, "ran": (), "returned": (),
}  # fmt: skip
READ = {"ticket": None, "count": None, "function": None, "context": None, "seen": 0}


def explore_pool(jobs, workers, broken=None):
    state = {**POOL, "WANTED": workers}
    read = {**READ, "rank": -1}
    processes = [(caller(broken), "enter", {**read, "jobs": j}) for j in jobs]
    processes += [(worker(), "wait", {**READ, "rank": i}) for i in range(workers)]
    return explore(state, processes, idle=workers)


@pytest.mark.parametrize(
    ("jobs", "workers"), [([(1, 2)], 1), ([(2,)], 2), ([(1,), (2,)], 1)]
)
def test_every_chunk_of_the_pool_runs_once_and_nobody_waits_for_ever(jobs, workers):
    assert explore_pool(jobs, workers) > 100


@pytest.mark.parametrize("broken", ["no close", "sleeps at once"])
def test_the_model_of_the_pool_finds_faults(broken):
    with pytest.raises(AssertionError):
        explore_pool([(1, 2)], 1, broken=broken)


# ---- the queue: queue_code.py


def wake_thread(prefix, after):
    """`_wake_thread`."""

    def count(s, me):
        s["WAKE"] += 1
        return f"{prefix}wake"

    def call(s, me):
        if s["THREAD_SLEEPS"]:
            wake(s, "WAKE")
        return after

    return {f"{prefix}wake_count": count, f"{prefix}wake": call}


def run_until(ran, busy):
    """`_run_until` of `me["number"]`; goes to `ran`, or to `busy` if others run."""

    def take(s, me):
        if s["RUNNER"]:
            return busy
        s["RUNNER"] = 1
        return "unfinished"

    def unfinished(s, me):
        return "run" if s["FINISHED"] < me["number"] else "release"

    def run(s, me):  # jobs have the numbers 1, 2, ...
        job = s["JOBS"][s["FINISHED"] % len(s["JOBS"])]
        assert s["ran"] == tuple(range(1, job)), f"job {job} after {s['ran']}"
        s["ran"] = (*s["ran"], job)
        return "finish"

    def finish(s, me):
        s["FINISHED"] += 1
        return "wake_waiting"

    def wake_waiting(s, me):
        if s["WAITING"]:
            wake(s, "FINISHED")
        return "unfinished"

    def release(s, me):
        s["RUNNER"] = 0
        return "rest"

    def rest(s, me):
        return "rest_wake_count" if s["SUBMITTED"] != s["FINISHED"] else ran

    steps = (take, unfinished, run, finish, wake_waiting, release, rest)
    return {x.__name__: x for x in steps} | wake_thread("rest_", ran)


def serve():
    """`_serve`."""

    def turn(s, me):
        me["seen"] = s["WAKE"]
        return "work"

    def work(s, me):
        return "number" if s["SUBMITTED"] != s["FINISHED"] else "idle"

    def number(s, me):
        me["number"] = s["SUBMITTED"]
        return "take"

    def idle(s, me):
        return "sleeps" if s["WAKE"] == me["seen"] else "turn"

    def sleeps(s, me):
        s["THREAD_SLEEPS"] = 1
        return "sleep"

    def sleep_(s, me):
        return sleep(s, "WAKE", me["seen"], "awake")

    def awake(s, me):  # and then a sleep that ends by itself
        s["THREAD_SLEEPS"] = 0
        return "turn"

    steps = (turn, work, number, idle, sleeps, awake)
    named = {step.__name__: step for step in steps} | {"sleep": sleep_}
    return run_until("idle", "idle") | named


def user(helps, broken=None):
    """Submits a job for each in `me["jobs"]`, in Python's lock, and waits for all."""

    def submit(s, me):
        if not me["jobs"]:
            return "wait"
        full = s["SUBMITTED"] - s["FINISHED"] == len(s["JOBS"])
        if s["LOCK"] or full:
            return "wait" if full and me["last"] else "submit"
        s["LOCK"] = 1
        return "store"

    def store(s, me):
        jobs = list(s["JOBS"])
        jobs[s["SUBMITTED"] % len(jobs)] = s["SUBMITTED"] + 1
        s["JOBS"] = tuple(jobs)
        return "count"

    def count(s, me):
        s["SUBMITTED"] += 1
        me["last"], me["jobs"] = s["SUBMITTED"], me["jobs"] - 1
        return "new_wake_count" if broken != "no wake" else "unlock"

    def unlock(s, me):
        s["LOCK"] = 0
        return "submit"

    # `_wait`, again and again
    def wait(s, me):
        me["number"] = me["last"]
        if s["FINISHED"] >= me["number"]:
            assert me["number"] in s["ran"], "a result was read before it was there"
            return "submit" if me["jobs"] else END
        return "take" if helps else "left_alone"

    def left_alone(s, me):
        return "waits" if s["RUNNER"] or broken == "no wake" else "left_wake_count"

    def waits(s, me):
        s["WAITING"] += 1
        return "look"

    def look(s, me):
        me["seen"] = s["FINISHED"]
        return "sleep" if me["seen"] < me["number"] else "waits_no_more"

    def sleep_(s, me):
        value = s["FINISHED"] if broken == "sleeps at once" else me["seen"]
        return sleep(s, "FINISHED", value, "waits_no_more")

    def waits_no_more(s, me):
        s["WAITING"] -= 1
        return "wait"

    steps = (submit, store, count, unlock, wait, left_alone, waits, look)
    named = {step.__name__: step for step in (*steps, waits_no_more)}
    named |= wake_thread("new_", "unlock") | wake_thread("left_", "waits")
    return run_until("wait", "waits") | named | {"sleep": sleep_}


QUEUE = {
    "SUBMITTED": 0, "FINISHED": 0, "RUNNER": 0, "WAKE": 0, "THREAD_SLEEPS": 0,
    "WAITING": 0, "JOBS": (0, 0), "LOCK": 0, "ran": (),
}  # fmt: skip


def explore_queue(users, broken=None):
    """Each user is a number of jobs, and whether who waits helps."""
    own = {"seen": 0, "number": 0, "last": 0}
    processes = [
        (user(helps, broken), "submit", {**own, "jobs": jobs}) for jobs, helps in users
    ]
    return explore(QUEUE, [*processes, (serve(), "turn", own)], idle=1)


@pytest.mark.parametrize(
    "users",
    [
        [(2, True)],
        [(3, False)],
        [(1, True), (1, True)],
        [(1, True), (1, False)],
    ],
)
def test_every_job_of_the_queue_runs_once_in_order_and_is_waited_for(users):
    assert explore_queue(users) > 100


@pytest.mark.parametrize("broken", ["no wake", "sleeps at once"])
def test_the_model_of_the_queue_finds_faults(broken):
    with pytest.raises(AssertionError):
        explore_queue([(1, False)], broken)
