"""MoriTransferEngineConnector's contract, without vLLM-Omni: what its callers give and read."""

import time

import pytest
import stagewire
from stagewire.vllm_omni import ManagedBuffer, MoriTransferEngineConnector, StagewireConnector
from stagewire.vllm_omni.settings import settings_of

torch = pytest.importorskip("torch")
msgspec = pytest.importorskip("msgspec")

POOL = 8 << 20


@pytest.fixture
def make():
    made = []

    def make_one(kind=MoriTransferEngineConnector, **config):
        made.append(kind({"zmq_port": 0, "memory_pool_size": POOL, **config}))
        return made[-1]

    yield make_one
    for connector in made:
        connector.close()


@pytest.fixture
def two(make):
    sender = make(stage_id=0)
    return sender, make(stage_id=1, role="receiver", sender_host=sender.host, sender_zmq_port=sender.zmq_port)


def polled(connector, key, metadata=None, stages=("0", "1")):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        got = connector.get(*stages, key, metadata)
        if got is not None:
            return got
        time.sleep(0.001)
    raise AssertionError(f"{key} has not come")


class Meta(msgspec.Struct, kw_only=True, omit_defaults=True):
    finished: torch.Tensor | None = None
    left_context_size: int | None = None


class Payload(msgspec.Struct, kw_only=True, omit_defaults=True):
    hidden: torch.Tensor | None = None
    layers: dict | None = None
    meta: Meta | None = None
    speaker: list[str] | str | None = None


def test_structs_arrive_as_dictionaries_without_their_defaults(two):
    sender, receiver = two
    hidden = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    sent = Payload(hidden=hidden, layers={24: hidden}, meta=Meta(finished=torch.tensor(False), left_context_size=0))
    ok, size, metadata = sender.put(from_stage="0", to_stage="1", put_key="k", data=sent)
    assert ok and metadata == {"source_host": sender.host, "source_port": sender.zmq_port, "data_size": size,
                               "is_fast_path": False}
    got, got_size = receiver.get(from_stage="0", to_stage="1", get_key="k", metadata=metadata)
    assert got_size == size and list(got) == ["hidden", "layers", "meta"] and list(got["meta"]) == [
        "finished", "left_context_size"]
    assert torch.equal(got["hidden"], hidden) and torch.equal(got["layers"][24], hidden)
    assert got["meta"]["finished"].shape == () and not got["meta"]["finished"] and got["meta"]["left_context_size"] == 0


@pytest.mark.parametrize("data", [b"raw bytes", torch.arange(12, dtype=torch.int16).reshape(3, 4).t()],
                         ids=["bytes", "tensor"])
def test_raw_payloads_arrive_as_managed_buffers(two, data):
    sender, receiver = two
    ok, size, metadata = sender.put("0", "1", "k", data)
    assert ok and metadata["is_fast_path"]
    buffer, got_size = polled(receiver, "k")
    assert isinstance(buffer, ManagedBuffer) and got_size == buffer.size == size
    if isinstance(data, bytes):
        assert buffer.to_bytes() == data and bytes(buffer.buffer) == data
    else:
        assert torch.equal(buffer.as_tensor(torch.int16, (4, 3)), data) and torch.equal(buffer.as_tensor(), data)
        assert (buffer.dtype, buffer.shape) == ("int16", (4, 3))
        with pytest.raises(ValueError):
            buffer.as_tensor(torch.int16, (5, 3))
        with pytest.raises(ValueError):
            buffer.as_tensor(torch.int16, (-1, 3))
    assert buffer.tensor.dtype == torch.uint8 and buffer.tensor.ndim == 1
    with buffer:
        kept = buffer.tensor
    buffer.release()
    with pytest.raises(RuntimeError):
        buffer.to_bytes()
    assert kept.numel() == size


def test_bytes_like_things_and_arrays_are_objects(two):
    numpy = pytest.importorskip("numpy")
    sender, receiver = two
    assert sender.put("0", "1", "a", bytearray(b"abc"))[2]["is_fast_path"] is False
    assert polled(receiver, "a")[0] == b"abc"
    assert sender.put("0", "1", "b", numpy.arange(3))[2]["is_fast_path"] is False
    assert (polled(receiver, "b")[0] == numpy.arange(3)).all()


def test_a_buffer_of_the_pool_and_a_received_one_can_be_put(two, make):
    sender, receiver = two
    buffer = sender.allocate(5000)
    buffer.tensor[:] = 7
    assert sender.put("0", "1", "k", buffer)[:2] == (True, 5000)
    buffer.release()
    got, _ = polled(receiver, "k")
    assert receiver.put("1", "2", "k", got)[0]  # a middle stage sends on what it got
    last = make(stage_id=2, role="receiver", sender_host=receiver.host, sender_zmq_port=receiver.zmq_port)
    assert polled(last, "k", stages=("1", "2"))[0].to_bytes() == b"\7" * 5000


def test_what_cannot_be_put_is_false_and_not_an_exception(two):
    sender, _ = two
    for data in (b"", torch.empty(0), object(), {"a": object()}, bytes(POOL + 1), ["\ud800"], [2**64],
                 torch.eye(3).to_sparse()):
        assert sender.put("0", "1", "k", data) == (False, 0, None)


def test_bytes_that_are_no_payload_are_none(two):
    sender, receiver = two
    sender._connector.put_encoded("0", "1", "k", b"\xc1 no payload")
    deadline = time.monotonic() + 60
    while sender.health()["stagewire"]["published"] and time.monotonic() < deadline:
        assert receiver.get("0", "1", "k") is None
    assert sender.health()["stagewire"]["published"] == 0


def test_a_full_pool_is_false_after_the_wait(make):
    sender = make(put_timeout_s=0)
    assert sender.put("0", "1", "a", bytes(6 << 20))[0]
    assert sender.put("0", "1", "b", bytes(6 << 20)) == (False, 0, None)
    sender.cleanup("a", "0", "1")
    assert sender.put("0", "1", "b", bytes(6 << 20))[0]


def test_not_there_is_none(two):
    sender, receiver = two
    assert receiver.get("0", "1", "never") is None
    assert receiver.get("0", "1", "never", {"source_host": sender.host, "source_port": sender.zmq_port}) is None
    for metadata in ({"source_host": sender.host}, {"source_port": 1}, {"source_host": "auto", "source_port": 5}):
        assert receiver.get("0", "1", "never", metadata) is None
    sender.put("0", "1", "gone", b"x")
    sender.cleanup(request_id="gone", from_stage="0", to_stage="1")
    sender.cleanup("unknown@0_1")
    assert receiver.get("0", "1", "gone") is None
    with pytest.raises(ValueError):
        sender.cleanup("k", from_stage="0")


def test_partial_metadata_and_another_sender(two, make):
    _, receiver = two
    other = make(stage_id=0)
    other.put("0", "1", "k", [1])
    assert polled(receiver, "k", {"source_host": other.host, "source_port": other.zmq_port})[0] == [1]
    receiver.update_sender_info(other.host, other.zmq_port)
    assert (receiver.sender_host, receiver.sender_zmq_port) == (other.host, other.zmq_port)
    other.put("0", "1", "l", [2])
    assert polled(receiver, "l")[0] == [2]
    receiver.update_sender_info(other.host, other.zmq_port, 3)


def test_metadata_of_another_size_takes_nothing(two):
    sender, receiver = two
    _, size, metadata = sender.put("0", "1", "k", [1, 2, 3])
    assert receiver.get("0", "1", "k", {**metadata, "data_size": size + 1}) is None
    assert polled(receiver, "k", metadata)[0] == [1, 2, 3]


def test_metrics_health_and_attributes(two):
    sender, receiver = two
    assert set(sender.health()) >= {"status", "host", "pool_device", "pool_size", "engine_key", "puts", "gets",
                                    "bytes_transferred", "errors", "timeouts"}
    _, size, _ = sender.put("0", "1", "k", [1, 2, 3])
    polled(receiver, "k")
    assert (sender._metrics["puts"], sender._metrics["bytes_transferred"]) == (1, size)
    assert (receiver._metrics["gets"], receiver._metrics["bytes_transferred"]) == (1, size)
    assert sender.get_connection_info() == {"host": sender.host, "zmq_port": sender.zmq_port,
                                            "engine_key": sender.engine_key, "can_put": True}
    assert (sender.stage_id, sender.role, sender.supports_raw_data, sender.can_put) == (0, "sender", True, True)
    assert sender.config["memory_pool_size"] == POOL and sender._make_key("a", "0", "1") == "a@0_1"
    sender.close()
    sender.close()
    assert sender.health() == {"status": "unhealthy", "error": "Connector is closed"}
    with pytest.raises(RuntimeError, match="Cannot put"):
        sender.put("0", "1", "k", b"x")
    with pytest.raises(RuntimeError, match="Cannot get"):
        sender.get("0", "1", "k")


def test_bad_configurations(make):
    for config, text in (({"role": "boss"}, "role"), ({"backend_type": "pigeon"}, "backend_type"),
                         ({"zmq_port": "x"}, "zmq_port"), ({"memory_pool_size": "many"}, "many")):
        with pytest.raises(ValueError, match=text):
            make(**config)
    with pytest.raises(RuntimeError, match="requires sender info"):
        make(role="receiver").get("0", "1", "k")
    taken = make()
    with pytest.raises(RuntimeError, match=str(taken.zmq_port)):
        make(zmq_port=taken.zmq_port)


def test_a_deadline_ends_a_wait_and_so_does_the_payload(two):
    sender, receiver = two
    started = time.monotonic()
    assert receiver.get_with_deadline("0", "1", "k", deadline=started + 0.05) is None
    assert time.monotonic() >= started + 0.05
    assert receiver.get_with_deadline("0", "1", "k", deadline=started - 1) is None
    receiver.abandon_get("k")
    receiver.abandon_get("k")
    receiver.abandon_get("never asked for")
    sender.put("0", "1", "k", [1])
    assert receiver.get_with_deadline("0", "1", "k", deadline=time.monotonic() + 60)[0] == [1]
    receiver.abandon_get("k")


def test_what_is_waited_for_changes_the_generation(two):
    sender, receiver = two
    generation = receiver.get_wakeup_generation()
    assert receiver.get("0", "1", "k") is None
    assert receiver.wait_for_change(generation, 0.01) == generation
    sender.put("0", "1", "k", [1])
    assert receiver.wait_for_change(generation, 60) > generation
    assert receiver.get("0", "1", "k")[0] == [1]


def test_polls_ask_nobody(two):
    sender, receiver = two
    assert receiver.get("0", "1", "k") is None
    sender.close()  # nobody would answer any more; what is known here is
    for _ in range(1000):
        assert receiver.get("0", "1", "k") is None


def test_copies_when_they_are_asked_for(make):
    sender = make(stage_id=0)
    receiver = make(stage_id=1, role="receiver", sender_host=sender.host, sender_zmq_port=sender.zmq_port,
                    received="copy")
    sender.put("0", "1", "k", {"t": torch.zeros(1 << 20)})
    got = polled(receiver, "k")[0]["t"]
    got += 1
    assert got.sum() == 1 << 20


def ports(extra, **options):
    connector = settings_of(extra, **options).connector
    return connector["zmq_port"], connector["sender_host"], connector["sender_zmq_port"]


def test_the_endpoints_of_each_way_to_inject_them():
    assert ports({"stage_id": 0, "role": "sender", "zmq_port": 50051}) == (50051, "", 0)
    # A middle stage that is told to receive listens where the next one will look.
    assert ports({"stage_id": 1, "role": "receiver", "from_stage": 0, "to_stage": 1, "sender_host": "auto",
                  "sender_zmq_port": 50051}) == (50052, "auto", 50051)
    assert ports({"stage_id": 1, "role": "dual", "zmq_port": 50052, "sender_host": "10.0.0.1",
                  "sender_zmq_port": 50051}) == (50052, "10.0.0.1", 50051)
    assert ports({"stage_id": 2, "role": "dual", "zmq_port": 50053}) == (50053, "auto", 50052)
    assert ports({"stage_id": 2, "role": "receiver", "zmq_port": 50051}) == (0, "auto", 50052)
    # A KV manager's receiver is told later.
    assert ports({"role": "receiver", "zmq_port": 50051}) == (0, "", 0)
    assert ports({"stage_id": 1, "role": "dual", "zmq_port": 50051}, port_is_base=True) == (50052, "auto", 50051)


def test_the_port_may_be_the_environments(monkeypatch):
    monkeypatch.setenv("OMNI_PORT", "1234")
    assert ports({"zmq_port": "${OMNI_PORT}"})[0] == ports({"zmq_port": "${NO_SUCH:-1234}"})[0] == 1234


def test_a_derived_port_that_is_taken_is_no_error_until_something_is_put(make):
    taken = make()
    with MoriTransferEngineConnector({"stage_id": 1, "role": "receiver", "sender_host": "127.0.0.1",
                                      "sender_zmq_port": taken.zmq_port - 1, "memory_pool_size": POOL}) as receiver:
        assert receiver.zmq_port != taken.zmq_port
        assert receiver.put("1", "2", "k", b"x") == (False, 0, None)


def test_a_gpus_pool_becomes_the_hosts_with_a_warning(make, caplog):
    connector = make(backend_type="xgmi", memory_pool_device="cuda", xgmi_num_streams=64)
    assert connector.pool_device == "cpu"
    assert "memory_pool_device cuda" in caplog.text
    make(memory_pool_sise=1)
    assert "did you mean memory_pool_size" in caplog.text


def test_the_own_name_finds_its_neighbours(make):
    base = make().zmq_port  # free, most likely
    try:
        first = make(StagewireConnector, stage_id=0, zmq_port=base + 1000)
        second = make(StagewireConnector, stage_id=1, role="receiver", zmq_port=base + 1000)
    except (RuntimeError, stagewire.Error) as error:
        pytest.skip(f"ports that follow each other are not free: {error}")
    first.put("0", "1", "k", [1])
    assert polled(second, "k")[0] == [1]
    assert second.zmq_port == first.zmq_port + 1
