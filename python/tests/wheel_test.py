"""The wheel in a clean virtual environment: no torch, no numpy, nothing but Python."""

import json
import pathlib
import subprocess
import sys
import tempfile

import pytest

WHEELS = sorted(pathlib.Path(__file__).parents[2].glob("build/wheels/dev/stagewire-*.whl"))

CODE = """
import sys, stagewire
assert not {"torch", "numpy", "vllm_omni"} & set(sys.modules)
stagewire.set_log_level("error")
sender = stagewire.Connector(zmq_port=0, memory_pool_size=4 << 20)
receiver = stagewire.Connector(role="receiver", zmq_port=0, memory_pool_size=4 << 20, sender_host=sender.host,
                               sender_zmq_port=sender.zmq_port)
sent = {"t": stagewire.Tensor(bytes(range(24)), "bfloat16", (3, 4)), "list": [1, "two"]}
sender.put("0", "1", "key", sent)
got = receiver.get("0", "1", "key", timeout=60).payload()
print(got["t"].dtype, got["t"].shape, got["t"].tobytes() == bytes(range(24)), got["list"])
from stagewire.vllm_omni import MoriTransferEngineConnector
with MoriTransferEngineConnector({"zmq_port": 0, "memory_pool_size": 1 << 20}) as connector:
    print(connector.put("0", "1", "key", {"a": [1]})[0], connector.health()["status"])
"""


@pytest.fixture(scope="module")
def python():
    if not WHEELS:
        pytest.skip("there is no wheel: scripts/python_wheel dev build/wheels/dev")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        inside = pathlib.Path(folder) / "bin" / "python"
        subprocess.run([sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "--python", inside, "install",
                        "--no-index", WHEELS[-1]], check=True)
        yield inside


def run(python, *arguments):
    return subprocess.run([python, *arguments], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          cwd=python.parent)


def test_it_works_without_torch_numpy_a_gpu_or_a_network_card(python):
    result = run(python, "-c", CODE)
    assert result.stderr == ""
    assert result.stdout == "bfloat16 (3, 4) True [1, 'two']\nTrue healthy\n"


def test_doctor(python):
    result = run(python, "-m", "stagewire", "doctor", "--format", "json")
    report = json.loads(result.stdout)
    assert result.returncode == (0 if report["one_host"] else 1)
    assert {finding["topic"] for finding in report["findings"]} >= {"backends", "limits", "memory"}
    text = run(python, "-m", "stagewire", "doctor").stdout
    assert all(finding["name"] in text for finding in report["findings"])


def test_it_carries_its_types(python):
    folder = pathlib.Path(run(python, "-c", "import stagewire; print(stagewire.__path__[0])").stdout.strip())
    assert (folder / "py.typed").exists()
    stubs = (folder / "_native.pyi").read_text()
    for name in ("class Connector", "class IOEngine", "class Tensor", "def encode", "def prepare"):
        assert name in stubs
