"""What the tests share: connectors that are closed again, and processes that end with their test."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest
import stagewire

POOL = 8 << 20
KEY = ("0", "1", "request_0_0")


@pytest.fixture
def make_connector():
    """make_connector(role, upstream=None, **settings): a stagewire.Connector that is closed after the test."""
    with contextlib.ExitStack() as stack:

        def make(role="sender", upstream=None, **settings):
            if upstream is not None:
                settings.update(sender_host=upstream.host, sender_zmq_port=upstream.zmq_port)
            settings = {"zmq_port": 0, "memory_pool_size": POOL, **settings}
            return stack.enter_context(stagewire.Connector(role=role, **settings))

        yield make


@pytest.fixture
def pair(make_connector):
    """A sender and a receiver that knows it, both in this process."""
    sender = make_connector("sender", stage_id=0)
    return sender, make_connector("receiver", sender, stage_id=1)


@pytest.fixture
def start_process():
    """start_process(code, *arguments): a Python process; its lines come from `.stdout`, it is killed after the test."""
    started = []

    def start(code, *arguments, **environment):
        process = subprocess.Popen([sys.executable, "-u", "-c", code, *map(str, arguments)], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **environment})
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.communicate()
