"""Peers written from the original's protocol with its own libraries, pyzmq and msgspec: a sender and a receiver beside
ours. What stands for MORI's engine in them is an IOEngine, whose packed descriptors cross in a pull.
"""

import threading

import pytest
import stagewire

msgspec = pytest.importorskip("msgspec")
zmq = pytest.importorskip("zmq")

PATIENCE_MS = 60_000
encode = msgspec.msgpack.encode


class MoriPullRequest(msgspec.Struct):
    request_id: str
    engine_desc_packed: bytes
    mem_desc_packed: bytes
    dst_offset: int
    length: int


class QueryRequest(msgspec.Struct):
    request_id: str


class QueryResponse(msgspec.Struct):
    request_id: str
    data_size: int
    is_fast_path: bool


@pytest.fixture
def context():
    with zmq.Context() as made:
        yield made


class OriginalReceiver:
    """Asks by a REQ socket and has the sender write into its pool."""

    def __init__(self, context, port):
        self.engine = stagewire.IOEngine()
        self.pool = self.engine.allocate(1 << 20, "remote_write")
        self.socket = context.socket(zmq.REQ)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.RCVTIMEO, PATIENCE_MS)
        self.socket.connect(f"tcp://127.0.0.1:{port}")

    def ask(self, request):
        self.socket.send(request)
        return self.socket.recv()

    def query(self, key):
        answer = self.ask(b"query_info" + encode(QueryRequest(key)))
        return None if answer == b"info_not_found" else msgspec.msgpack.decode(answer, type=QueryResponse)

    def pull(self, key, offset, length):
        return self.ask(encode(MoriPullRequest(key, self.engine.desc.pack(), self.pool.desc.pack(), offset, length)))

    def bytes(self, offset, length):
        return bytes(memoryview(self.pool.raw)[offset:offset + length])

    def close(self):
        self.socket.close()
        self.engine.close()


class OriginalSender:
    """Answers by a ROUTER socket, on a thread of its own; writes from its pool into the receiver's."""

    def __init__(self, context):
        self.engine = stagewire.IOEngine()
        self.pool = self.engine.allocate(1 << 20, "local_only")
        self.entries = {}  # internal key -> (offset, size, is_fast_path)
        self.used = 0
        self.socket = context.socket(zmq.ROUTER)
        self.port = self.socket.bind_to_random_port("tcp://127.0.0.1")
        self.stop, self.stopped = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
        self.stop.bind("inproc://stop")
        self.stopped.connect("inproc://stop")
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def put(self, key, data, is_fast_path):
        memoryview(self.pool.raw)[self.used:self.used + len(data)] = data
        self.entries[key] = (self.used, len(data), is_fast_path)
        self.used += len(data)

    def serve(self):
        poller = zmq.Poller()
        poller.register(self.socket, zmq.POLLIN)
        poller.register(self.stopped, zmq.POLLIN)
        while self.stopped not in dict(poller.poll()):
            frames = self.socket.recv_multipart()
            if len(frames) >= 2:
                self.socket.send_multipart([frames[0], b"", self.answer(frames[-1])])
        self.socket.close(linger=0)
        self.stopped.close(linger=0)

    def answer(self, request):
        if request.startswith(b"query_info"):
            try:
                key = msgspec.msgpack.decode(request[len(b"query_info"):], type=QueryRequest).request_id
            except msgspec.DecodeError:
                return b"info_not_found"
            entry = self.entries.get(key)
            return b"info_not_found" if entry is None else encode(QueryResponse(key, *entry[1:]))
        try:
            pull = msgspec.msgpack.decode(request, type=MoriPullRequest)
        except msgspec.DecodeError:
            return b"trans_error"
        entry = self.entries.get(pull.request_id)
        if entry is None or entry[1] != pull.length:
            return b"trans_error"
        self.engine.register_remote_engine(stagewire.EngineDesc.unpack(pull.engine_desc_packed))
        target = stagewire.MemoryDesc.unpack(pull.mem_desc_packed)
        self.engine.write(self.pool.desc, entry[0], target, pull.dst_offset, pull.length).wait(60)
        del self.entries[pull.request_id]
        return b"trans_done"

    def close(self):
        self.stop.send(b"")
        self.thread.join()
        self.stop.close(linger=0)
        self.engine.close()


@pytest.fixture
def drop_in():
    from stagewire.vllm_omni import MoriTransferEngineConnector
    made = []

    def make(**config):
        made.append(MoriTransferEngineConnector({"zmq_port": 0, "memory_pool_size": 8 << 20, **config}))
        return made[-1]

    yield make
    for connector in made:
        connector.close()


def test_the_originals_receiver_takes_what_we_put(context, drop_in):
    sender = drop_in(stage_id=0)
    receiver = OriginalReceiver(context, sender.zmq_port)
    assert receiver.query("chat_0_0@0_1") is None
    payload = {"meta": {"finished": True}, "text": "x" * 50_000}
    ok, size, metadata = sender.put("0", "1", "chat_0_0", payload)
    assert ok and metadata == {"source_host": "127.0.0.1", "source_port": sender.zmq_port, "data_size": size,
                               "is_fast_path": False}
    assert receiver.query("chat_0_0@0_1") == QueryResponse("chat_0_0@0_1", size, False)
    assert receiver.pull("chat_0_0@0_1", 4096, size - 1) == b"trans_error"  # which keeps it
    assert receiver.pull("chat_0_0@0_1", 4096, size) == b"trans_done"
    assert msgspec.msgpack.decode(receiver.bytes(4096, size)) == payload
    assert receiver.bytes(4096 + size, 100) == bytes(100)
    assert receiver.query("chat_0_0@0_1") is None
    assert receiver.pull("chat_0_0@0_1", 0, size) == b"trans_error"
    assert receiver.ask(b"query_info\xff") == b"info_not_found"
    assert receiver.ask(b"\x85nonsense") == b"trans_error"
    receiver.close()


def test_the_originals_receiver_takes_raw_bytes(context, drop_in):
    sender = drop_in(stage_id=0)
    receiver = OriginalReceiver(context, sender.zmq_port)
    data = bytes(range(256)) * 100
    assert sender.put("0", "1", "raw", data)[:2] == (True, len(data))
    assert receiver.query("raw@0_1") == QueryResponse("raw@0_1", len(data), True)
    assert receiver.pull("raw@0_1", 0, len(data)) == b"trans_done"
    assert receiver.bytes(0, len(data)) == data
    receiver.close()


@pytest.fixture
def original_sender(context):
    sender = OriginalSender(context)
    yield sender
    sender.close()


def polled(connector, key, metadata=None):
    """As vLLM-Omni's adapter waits."""
    import time
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while time.monotonic() < deadline:
        got = connector.get("0", "1", key, metadata)
        if got is not None:
            return got
        time.sleep(0.001)
    raise AssertionError(f"{key} has not come")


@pytest.mark.parametrize("kind", ["asked", "partial metadata", "metadata"])
def test_we_take_what_the_originals_sender_has(original_sender, drop_in, kind):
    receiver = drop_in(stage_id=1, role="receiver", sender_host="127.0.0.1", sender_zmq_port=original_sender.port)
    payload = {"meta": {"finished": False}, "numbers": list(range(20_000))}
    data = encode(payload)
    original_sender.put("chat_0_0@0_1", data, False)
    original_sender.put("raw@0_1", data, True)
    metadata = {"source_host": "127.0.0.1", "source_port": original_sender.port}
    if kind == "metadata":
        metadata.update(data_size=len(data), is_fast_path=True)
    metadata = None if kind == "asked" else metadata
    if kind != "metadata":
        assert polled(receiver, "chat_0_0", metadata) == (payload, len(data))
    buffer, size = polled(receiver, "raw", metadata)
    assert (buffer.to_bytes(), size) == (data, len(data))
    buffer.release()
