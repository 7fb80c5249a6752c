"""Leases, reference counts, threads, forks, kills and the interpreter's exit."""

import gc
import subprocess
import sys
import threading
import time

import pytest
import stagewire

numpy = pytest.importorskip("numpy")

LARGE = 1 << 20  # goes by lease


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it has not come to that"
        time.sleep(0.001)


def put(sender, key="key", size=LARGE):
    sender.put("0", "1", key, numpy.arange(size, dtype=numpy.uint8))


def free(connector):
    return connector.health()["pool_free"]


@pytest.mark.parametrize("route", ["lease", "read"])
def test_every_view_keeps_the_memory_and_the_last_gives_it_back(make_connector, route):
    torch = pytest.importorskip("torch")
    sender = make_connector("sender")
    receiver = make_connector("receiver", sender, route=route)
    holder = sender if route == "lease" else receiver
    put(sender)
    delivery = receiver.get("0", "1", "key", timeout=60)
    assert delivery.route == route
    views = [delivery.payload("torch"), delivery.payload("numpy"), memoryview(delivery.tensor()),
             torch.utils.dlpack.from_dlpack(delivery.tensor().__dlpack__()), numpy.asarray(delivery.tensor()),
             numpy.from_dlpack(delivery.tensor()) if hasattr(numpy, "from_dlpack") else None]
    whole = free(holder) + LARGE
    delivery.release()
    delivery.release()
    with pytest.raises(stagewire.Closed):
        delivery.tensor()
    del delivery
    while views:
        view = views.pop()
        assert free(holder) == whole - LARGE
        assert view is None or bytes(memoryview(numpy.asarray(view)))[:300] == bytes(range(256)) + bytes(range(44))
        del view
    until(lambda: free(holder) == whole)


def test_views_survive_both_connectors(make_connector):
    sender = make_connector("sender")
    receiver = make_connector("receiver", sender)
    put(sender)
    array = receiver.get("0", "1", "key", timeout=60).payload("numpy")
    receiver.close()
    sender.close()
    del sender, receiver
    gc.collect()
    assert (array == numpy.arange(LARGE, dtype=numpy.uint8)).all()


def test_a_capsule_that_nobody_used_gives_the_memory_back(pair):
    sender, receiver = pair
    before = free(sender)
    put(sender)
    capsule = receiver.get("0", "1", "key", timeout=60).tensor().__dlpack__(max_version=(1, 0))
    assert free(sender) == before - LARGE
    del capsule
    until(lambda: free(sender) == before)


def test_received_memory_is_read_only_where_that_can_be_said(pair):
    sender, receiver = pair
    put(sender)
    tensor = receiver.get("0", "1", "key", timeout=60).tensor()
    assert tensor.readonly and memoryview(tensor).readonly and not numpy.asarray(tensor).flags.writeable


def test_a_pool_buffer_is_put_without_a_copy(pair):
    sender, receiver = pair
    before = free(sender)
    block = sender.allocate(LARGE)
    view = numpy.asarray(block.raw)
    view[:] = 7
    sender.put("0", "1", "key", block)
    with pytest.raises(stagewire.Closed):
        sender.put("0", "1", "again", block)
    got = receiver.get("0", "1", "key", timeout=60)
    view[0] = 8  # the same memory, which nobody should do
    assert memoryview(got.raw)[0] == 8
    del got, view, block
    until(lambda: free(sender) == before)
    kept = sender.allocate(LARGE)
    raw = kept.raw
    kept.release()
    assert free(sender) == before - LARGE
    del raw
    assert free(sender) == before


def test_a_thousand_objects_without_growth(pair):
    torch = pytest.importorskip("torch")
    sender, receiver = pair
    payload = {"hidden": torch.zeros(64, 64), "meta": {"finished": False, "ids": list(range(20))}}

    def rounds(count):
        for i in range(count):
            sender.put("0", "1", f"key_{i}", payload)
            with receiver.get("0", "1", f"key_{i}", timeout=60) as delivery:
                assert delivery.payload()["hidden"].shape == (64, 64)
        gc.collect()
        return len(gc.get_objects()), sys.getrefcount(payload["hidden"]), sys.getrefcount(None)

    resident = lambda: int(open("/proc/self/statm").read().split()[1]) * 4096  # noqa: E731
    before, pool = rounds(200), free(sender)
    memory = resident()
    after = rounds(1000)
    assert after[0] - before[0] < 100 and after[1] == before[1] and abs(after[2] - before[2]) < 100
    assert resident() - memory < 4 << 20
    until(lambda: free(sender) == pool)


def test_a_get_that_waits_lets_others_run(pair):
    sender, receiver = pair
    got, counted = [], 0
    thread = threading.Thread(target=lambda: got.append(receiver.get("0", "1", "late", timeout=60)))
    thread.start()
    until(lambda: sender.health()["watched"] == 1)
    while counted < 100_000:
        counted += 1
    assert thread.is_alive() and not got
    sender.put("0", "1", "late", b"x")
    thread.join()
    assert got[0].nbytes == 1


def test_close_ends_what_waits(pair):
    _, receiver = pair
    errors = []

    def wait(key):
        try:
            receiver.get("0", "1", key, timeout=600)
        except stagewire.Error as error:
            errors.append(type(error))

    threads = [threading.Thread(target=wait, args=(f"key_{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    until(lambda: receiver.health()["errors"] == 0 and threading.active_count() > 4)
    receiver.close()
    for thread in threads:
        thread.join()
    assert errors == [stagewire.Closed] * 4
    receiver.close()
    with pytest.raises(stagewire.Closed):
        receiver.get("0", "1", "key")


def test_many_threads_and_a_close_under_load(pair):
    sender, receiver = pair
    failures, rounds = [], []

    def work(thread):
        try:
            for i in range(100_000):
                sender.put("0", "1", f"{thread}_{i}", {"a": numpy.arange(2000)}, timeout=60)
                assert receiver.get("0", "1", f"{thread}_{i}", timeout=60).payload("numpy")["a"][-1] == 1999
                rounds.append(i)
        except (stagewire.Closed, stagewire.Unavailable):  # of this side, or of the other
            return
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    until(lambda: len(rounds) > 400 or failures)
    sender.close()
    receiver.close()
    for thread in threads:
        thread.join()
    assert not failures


PEER = """
import sys, stagewire
connector = stagewire.Connector(stage_id=0, host="127.0.0.1", zmq_port=int(sys.argv[1]), memory_pool_size=8 << 20)
print(connector.zmq_port, flush=True)
i = 0
while True:
    connector.put("0", "1", f"key_{i}", bytes([i % 256]) * 100_000, timeout=600)
    i += 1
"""


def test_kill_and_restart_on_the_same_port(make_connector, start_process):
    first = start_process(PEER, 0)
    port = int(first.stdout.readline())
    receiver = make_connector("receiver", sender_host="127.0.0.1", sender_zmq_port=port)
    held = [receiver.get("0", "1", f"key_{i}", timeout=60) for i in range(5)]
    first.kill()
    first.wait()
    for i, delivery in enumerate(held):
        assert delivery.raw.tobytes() == bytes([i]) * 100_000
    with pytest.raises((stagewire.Unavailable, stagewire.Timeout)):
        receiver.get("0", "1", "never", timeout=0.2)
    second = start_process(PEER, port)
    assert int(second.stdout.readline()) == port
    failed = 0
    while True:  # at most one try fails
        try:
            assert receiver.get("0", "1", "key_0", timeout=60).raw.tobytes() == bytes(100_000)
            break
        except stagewire.Unavailable:
            failed += 1
            assert failed == 1


def script(code):
    return subprocess.run([sys.executable, "-c", code], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


TWO = """
import stagewire, sys, os
stagewire.set_log_level("error")
def two():
    sender = stagewire.Connector(zmq_port=0, memory_pool_size=4 << 20)
    return sender, stagewire.Connector(role="receiver", zmq_port=0, memory_pool_size=4 << 20, sender_host=sender.host,
                                       sender_zmq_port=sender.zmq_port)
def handed(pair, size):
    pair[0].put("0", "1", f"key_{size}", bytes(size))
    return pair[1].get("0", "1", f"key_{size}", timeout=60)
"""


@pytest.mark.parametrize("ending", ["", "raise SystemExit(0)", "cycle = [array]; cycle.append(cycle); gc.disable()"])
def test_the_interpreter_ends_with_views_alive(ending):
    result = script(TWO + """
import gc, numpy
pair = two()
delivery = handed(pair, 1_000_000)
array, small = delivery.payload(), handed(pair, 100).payload()
view = numpy.frombuffer(array, "uint8")
block = pair[0].allocate(1000)
engine = stagewire.IOEngine()
memory = engine.allocate(4096).raw
print("end", flush=True)
""" + ending)
    assert (result.returncode, result.stdout, result.stderr) == (0, "end\n", "")


def test_the_interpreter_ends_while_a_thread_waits():
    result = script(TWO + """
import threading
pair = two()
threading.Thread(target=lambda: pair[1].get("0", "1", "never", timeout=600), daemon=True).start()
while pair[0].health()["watched"] == 0: pass
print("end", flush=True)
""")
    assert (result.returncode, result.stdout) == (0, "end\n")
    assert "Fatal" not in result.stderr


def test_a_fork_between_the_import_and_the_first_use():
    result = script(TWO + """
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        assert handed(two(), 100_000).nbytes == 100_000
        sys.exit(0)
    children.append(child)
assert handed(two(), 1000).nbytes == 1000
print([os.waitpid(child, 0)[1] for child in children])
""")
    assert result.stdout == "[0, 0, 0]\n", result.stderr


def test_a_fork_after_the_first_use_is_refused_in_the_child_and_harms_nobody():
    result = script(TWO + """
pair = two()
child = os.fork()
if child == 0:
    try:
        pair[0].put("0", "1", "key", b"x")
    except stagewire.Unsupported as error:
        sys.exit(7 if "forked" in str(error) else 8)
    sys.exit(9)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), handed(pair, 100_000).nbytes)
""")
    assert result.stdout == "7 100000\n", result.stderr


def test_each_error_code_has_its_exception(pair):
    from stagewire import _native, errors
    assert set(_native.error_codes) == set(errors.BY_CODE)
    for code, kind in errors.BY_CODE.items():
        assert kind.code == code and issubclass(kind, stagewire.Error)
    sender, receiver = pair
    put(sender, "first", 1)
    receiver.get("0", "1", "first", timeout=60)  # so that they have met
    with pytest.raises(TimeoutError):
        receiver.get("0", "1", "key", timeout=0.01)
    with pytest.raises(ValueError, match="empty"):
        sender.put("0", "1", "key", b"")
    with pytest.raises(stagewire.TooLarge, match="9437184 .* 8388608 "):
        sender.put("0", "1", "key", bytes(9 << 20))
    blocks = [sender.allocate(4 << 20)]
    with pytest.raises(MemoryError):
        blocks += [sender.allocate(4 << 20), sender.allocate(4 << 20)]
    with pytest.raises(stagewire.Conflict, match=str(sender.zmq_port)):
        stagewire.Connector(zmq_port=sender.zmq_port, memory_pool_size=1 << 20)
    sender.abort("0", "1", "given up", "the user has gone")
    with pytest.raises(stagewire.Cancelled, match="the user has gone"):
        receiver.get("0", "1", "given up", timeout=60)
    with pytest.raises(NotImplementedError):
        stagewire.Connector(zmq_port=0, memory_pool_device="cuda:0")
