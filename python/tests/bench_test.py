"""python -m stagewire bench says what it says."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("msgspec")
pytest.importorskip("numpy")


def test_the_bench_compares_with_the_yardstick():
    result = subprocess.run([sys.executable, "-m", "stagewire", "bench", "--sizes", "4K,2M", "--rounds", "8", "--json",
                             "-"], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout[result.stdout.index("{"):])
    assert [(row["payload_bytes"], row["rounds"], row["aim"], row["aim_is"]) for row in report["rows"]] == [
        (4096, 8, 1.5, "latency"), (2 << 20, 8, 50, "throughput")]
    for row in report["rows"]:
        for way in ("segment", "copied", "in_pool"):
            assert 0 < row[f"{way}_us"] <= row[f"{way}_p90_us"]
        assert row["copied_ratio"] > 0 and row["in_pool_ratio"] > 0
