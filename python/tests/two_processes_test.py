"""Two real processes: torch tensors from the one to the other by the drop-in connector."""

import pytest

torch = pytest.importorskip("torch")

SENDER = """
import sys, torch
from stagewire.vllm_omni import MoriTransferEngineConnector
connector = MoriTransferEngineConnector({"stage_id": 0, "role": "sender", "zmq_port": 0, "memory_pool_size": 64 << 20})
print(connector.zmq_port, flush=True)
for line in sys.stdin:
    size = int(line)
    data = {"hidden": torch.arange(size, dtype=torch.float32), "meta": {"finished": torch.tensor(size > 1000)}}
    print(*connector.put(from_stage="0", to_stage="1", put_key=f"request_0_{size}", data=data)[:2], flush=True)
connector.close()
"""


@pytest.fixture
def sender(start_process):
    process = start_process(SENDER)
    process.port = int(process.stdout.readline())
    return process


def received(connector, key):
    import time
    return connector.get_with_deadline("0", "1", key, deadline=time.monotonic() + 60)


@pytest.fixture
def receiver(sender):
    from stagewire.vllm_omni import MoriTransferEngineConnector
    with MoriTransferEngineConnector({"stage_id": 1, "role": "receiver", "memory_pool_size": 64 << 20,
                                      "sender_host": "127.0.0.1", "sender_zmq_port": sender.port}) as connector:
        yield connector


@pytest.mark.parametrize("count", [10, 1000, 1_000_000])
def test_tensors_arrive_whole(sender, receiver, count):
    sender.stdin.write(f"{count}\n")
    sender.stdin.flush()
    payload, size = received(receiver, f"request_0_{count}")
    assert torch.equal(payload["hidden"], torch.arange(count, dtype=torch.float32))
    assert bool(payload["meta"]["finished"]) == (count > 1000)
    assert sender.stdout.readline().split() == ["True", str(size)]


def test_what_was_killed_is_gone_and_what_it_had_given_stays(sender, receiver):
    sender.stdin.write("1000000\n")
    sender.stdin.flush()
    payload, _ = received(receiver, "request_0_1000000")
    sender.kill()
    sender.wait()
    assert torch.equal(payload["hidden"], torch.arange(1_000_000, dtype=torch.float32))
    assert receiver.get("0", "1", "request_0_7") is None
