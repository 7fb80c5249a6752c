"""vLLM-Omni's original connector, unmodified, over stagewire.compat.mori."""

import importlib.util
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("torch")
if importlib.util.find_spec("vllm_omni") is None:
    pytest.skip("vllm-omni is not installed", allow_module_level=True)

START = """
import sys, torch
import vllm_stand_in
vllm_stand_in.install()
torch.Tensor.pin_memory = lambda self: self  # which wants a GPU's driver
torch.Tensor.nbytes = property(lambda self: self.numel() * self.element_size())  # which torch 1.13 lacks
from vllm_omni.distributed.omni_connectors.connectors.mori_transfer_engine_connector import MoriTransferEngineConnector
def make(**config):
    return MoriTransferEngineConnector({"host": "127.0.0.1", "memory_pool_size": 8 << 20, **config})
"""
SENDER = START + """
import zmq
with zmq.Context() as context, context.socket(zmq.REP) as probe:
    port = probe.bind_to_random_port("tcp://127.0.0.1")
sender = make(role="sender", zmq_port=port)
print(port, flush=True)
data = {"hidden": torch.arange(100_000, dtype=torch.float32), "meta": {"finished": True}}
print(sender.put("0", "1", "object", data)[0], sender.put("0", "1", "raw", torch.arange(50_000))[0], flush=True)
sys.stdin.readline()
print(sender._metrics["errors"], len(sender._local_buffers), flush=True)
sender.close()
"""
RECEIVER = START + """
receiver = make(role="receiver", sender_host="127.0.0.1", sender_zmq_port=int(sys.argv[1]))
got, size = receiver.get("0", "1", "object")
assert torch.equal(got["hidden"], torch.arange(100_000, dtype=torch.float32)) and got["meta"] == {"finished": True}
buffer, size = receiver.get("0", "1", "raw")
assert torch.equal(buffer.as_tensor(torch.int64, (50_000,)), torch.arange(50_000))
buffer.release()
assert receiver.get("0", "1", "raw") is None
print(receiver._metrics["gets"], receiver._metrics["errors"], flush=True)
receiver.close()
"""


def test_the_original_connector_runs_between_two_processes(start_process):
    here = f"import sys; sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})\n"
    switches = {"STAGEWIRE_DISABLE": "1", "STAGEWIRE_COMPAT_MORI": "1"}
    sender = start_process(here + SENDER, **switches)
    port = sender.stdout.readline().strip()
    assert sender.stdout.readline() == "True True\n"
    receiver = start_process(here + RECEIVER, port, **switches)
    assert receiver.communicate()[0] == "2 0\n"
    sender.stdin.write("\n")
    sender.stdin.flush()
    assert sender.stdout.readline() == "0 0\n"
    assert sender.wait() == 0


def test_statuses_sessions_and_notifications():
    code = """
import torch, stagewire.compat.mori
from mori.cpp import TransferStatus
from mori.io import BackendType, EngineDesc, IOEngine, IOEngineConfig, MemoryDesc, RdmaBackendConfig, StatusCode
one, two = (IOEngine(name, IOEngineConfig(host="127.0.0.1", port=0)) for name in ("one", "two"))
for engine in (one, two):
    engine.create_backend(BackendType.RDMA, RdmaBackendConfig())
one.register_remote_engine(EngineDesc.unpack(two.get_engine_desc().pack()))
two.register_remote_engine(EngineDesc.unpack(one.get_engine_desc().pack()))
source, target = torch.arange(64, dtype=torch.uint8), torch.zeros(64, dtype=torch.uint8)
local, remote = one.register_torch_tensor(source), two.register_torch_tensor(target)
remote = MemoryDesc.unpack(remote.pack())
uid = one.allocate_transfer_uid()
status, = one.batch_write([local], [[0, 8]], [remote], [[32, 40]], [[8, 8]], [uid])
assert status.Wait() == StatusCode.SUCCESS and status.Succeeded() and not status.Failed() and status.Message() == ""
assert target.tolist() == [0] * 32 + list(range(16)) + [0] * 16
while (inbound := two.pop_inbound_transfer_status("one", uid)) is None: pass
assert inbound.Succeeded() and two.pop_inbound_transfer_status("one", uid) is None
session = one.create_session(local, remote)
assert session.alive()
assert session.read(0, 32, 16, session.allocate_transfer_uid()).WaitFor(60000) == StatusCode.SUCCESS
bad = one.write(local, 0, remote, 5000, 16, one.allocate_transfer_uid())
bad.Wait()
assert bad.Failed() and bad.Code() == StatusCode.ERR_INVALID_ARGS and bad.Message()
assert TransferStatus().Init()
print("done")
"""
    result = subprocess.run([sys.executable, "-c", code], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert result.stdout == "done\n", result.stderr
