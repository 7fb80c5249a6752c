"""vLLM-Omni's own factory, connector base and chunk adapter with our connector, found through the plugin."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("torch")
if importlib.util.find_spec("vllm_omni") is None:
    pytest.skip("vllm-omni is not installed", allow_module_level=True)

HERE = pathlib.Path(__file__).parent
# The ports are vLLM-Omni's arithmetic; an address of loopback for each test run keeps them apart.
HOST = "127.{}.{}.{}".format(*(os.getpid() + 65536).to_bytes(3, "big"))

CREATE = """
import logging, sys
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
import vllm_stand_in
vllm_stand_in.install()
from vllm_omni.distributed.omni_connectors import factory
from vllm_omni.distributed.omni_connectors.connectors.base import OmniConnectorBase
from vllm_omni.distributed.omni_connectors.utils.config import ConnectorSpec
spec = ConnectorSpec("MoriTransferEngineConnector", {"zmq_port": 0, "memory_pool_size": 1 << 20})
"""


def run(code, **environment):
    return subprocess.run([sys.executable, "-c", CREATE + code], cwd=HERE, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env={**os.environ, **environment}).stdout


def test_the_factory_makes_our_class_and_a_log_line_says_why():
    output = run("""
connector = factory.OmniConnectorFactory.create_connector(spec)
print("made", type(connector).__module__, isinstance(connector, OmniConnectorBase))
from stagewire.vllm_omni import register
register()
register()
print("again", type(factory.OmniConnectorFactory.create_connector(spec)).__module__)
own = factory.OmniConnectorFactory.create_connector(ConnectorSpec("StagewireConnector", spec.extra))
print("own name", type(own).__name__)
""")
    assert "made stagewire.vllm_omni.connector True" in output
    assert "again stagewire.vllm_omni.connector" in output
    assert "own name StagewireConnector" in output
    assert output.count("MoriTransferEngineConnector is served by stagewire") == 1


@pytest.mark.parametrize("code", ["", "from stagewire.vllm_omni.plugin import unregister\nunregister()\n"],
                         ids=["STAGEWIRE_DISABLE", "unregister"])
def test_switched_off_the_original_is_back(code):
    output = run(code + """
try:
    factory.OmniConnectorFactory.create_connector(spec)
except ValueError as error:
    print("refused", error)
""", **({} if code else {"STAGEWIRE_DISABLE": "1"}))
    # The original's own words on a machine without MORI.
    assert "refused Failed to create connector MoriTransferEngineConnector: Mori is not available" in output
    assert "vLLM-Omni's own" in output


def test_a_plain_vllm_is_left_alone():
    code = """
import sys
from importlib.metadata import entry_points
points = {group: entry_points(group=group, name="stagewire") for group in ("vllm.general_plugins",
                                                                           "vllm_omni.general_plugins")}
for found in points.values():
    for point in found:
        point.load()()
        point.load()()
print([len(found) for found in points.values()], "vllm_omni" in sys.modules, "torch" in sys.modules)
"""
    output = subprocess.run([sys.executable, "-c", code], text=True, stdout=subprocess.PIPE, cwd=HERE).stdout
    assert output.split("\n")[0] == "[1, 1] False False"


@pytest.fixture
def stages(start_process):
    """start(requests, chunks): the three stages as processes, and what the last two say at their end."""

    def start(requests, chunks):
        code = f"import sys; sys.path.insert(0, {str(HERE)!r}); import omni_stage; omni_stage.main()"
        started = [start_process(code, stage, HOST, requests, chunks) for stage in range(3)]
        made = [json.loads(stage.stdout.readline()) for stage in started]
        assert {line["class"] for line in made} == {"stagewire.vllm_omni.connector.MoriTransferEngineConnector"}
        reports = []
        for stage in reversed(started):
            stage.stdin.write("\n")
            stage.stdin.flush()
            reports.insert(0, json.loads(stage.stdout.readline()))
        assert [stage.wait() for stage in started] == [0, 0, 0]
        return reports

    return start


def test_a_whole_stream_through_three_stages(stages):
    requests, chunks = 4, 25
    reports = stages(requests, chunks)
    assert [report["errors"] for report in reports] == [[], [], []]
    assert [report["send_failures"] for report in reports] == [{}, {}, {}]
    assert [report["received"] for report in reports] == [None, requests * chunks, requests * chunks]
    assert [report["metrics"]["puts"] for report in reports] == [requests * chunks, requests * chunks, 0]
    assert [report["published"] for report in reports] == [0, 0, 0]
