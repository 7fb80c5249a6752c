"""`stagewire bench` runs to its end on a busy machine and prints what it promises; its figures are not judged here."""
import json
import os
import pathlib
import select
import signal
import subprocess
import unittest

import support

STAGEWIRE = support.BUILD / "stagewire"


def rows_of(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


class Chunks(unittest.TestCase):
    def bench(self, *arguments):
        result = support.run(STAGEWIRE, "bench", "chunks", "--json", "--rounds", "1", "--seconds", "0.02", *arguments)
        self.assertEqual(result.returncode, 0, result.stdout)
        return rows_of(result)

    def test_each_case_compares_itself_with_a_yardstick_of_the_same_run(self):
        rows = self.bench("--chunks", "20000", "--streams", "3", "--case", "rate", "paced", "wake", "first-chunk",
                          "idle", "memory")
        seen = {(row["case"], row["figure"]) for row in rows}
        self.assertEqual(seen, {("rate", "chunks/s"), ("paced", "p50 us"), ("paced", "p99 us"), ("wake", "p50 us"),
                                ("wake", "p99 us"), ("first-chunk", "GB/s"), ("idle", "% of a core"),
                                ("memory", "sender grew by MiB"), ("memory", "receiver grew by MiB"),
                                ("memory", "sender's pool free"), ("memory", "receiver's pool free")})
        for row in rows:
            self.assertTrue(row["value"] > 0 or row["case"] in ("idle", "memory"), row)
            if "yardstick" in row:
                self.assertAlmostEqual(row["ratio"], row["value"] / row["yardstick_value"])
        pools = [row for row in rows if row["figure"].endswith("pool free")]
        self.assertEqual([row["met"] for row in pools], [True, True], "a pool has lost bytes")

    def test_a_single_scheme_is_measured_alone(self):
        for scheme, case in (("stagewire", "rate"), ("query-pull", "rate (query-pull)")):
            with self.subTest(scheme=scheme):
                (row,) = self.bench("--scheme", scheme, "--streams", "2", "--case", "rate")
                self.assertEqual((row["case"], row["streams"], "yardstick" in row), (case, 2, False))
                self.assertGreater(row["value"], 0)

    def test_a_process_that_dies_ends_the_bench_with_an_error(self):
        bench = subprocess.Popen([STAGEWIRE, "bench", "chunks", "--rounds", "100", "--seconds", "60", "--scheme",
                                  "stagewire", "--case", "paced"],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with bench:
            children = pathlib.Path(f"/proc/{bench.pid}/task/{bench.pid}/children")
            bench.stdout.readline()  # the header: it has begun
            while not (partner := children.read_text().split()):
                self.assertIsNone(bench.poll())
            os.kill(int(partner[0]), signal.SIGKILL)
            self.assertRegex(bench.communicate(timeout=60)[1], "stagewire bench: .*")
            self.assertEqual(bench.returncode, 1)

    def test_an_unknown_case_or_scheme_is_refused(self):
        for option in ("--case", "--scheme"):
            result = support.run(STAGEWIRE, "bench", "chunks", option, "nothing")
            self.assertEqual(result.returncode, 2, result.stdout)
            self.assertIn("nothing", result.stdout)


class Handoff(unittest.TestCase):
    def refused(self, words, *arguments):
        result = support.run(STAGEWIRE, "bench", *arguments)
        self.assertEqual(result.returncode, 2, result.stdout)
        self.assertIn(words, result.stdout)

    def test_what_cannot_be_measured_is_refused_with_what_can(self):
        self.refused("there is no case reed; there are eager-block, eager-spin, lease, read,", "handoff", "--case", "reed")
        self.refused("a payload of 12288 bytes; there are 4KiB, 64KiB,", "handoff", "--size", "12KiB")
        self.refused("a payload of 4194304 bytes; there are 4KiB, ", "handoff", "--case", "lease", "--size", "4MiB")
        self.refused("no sizes to choose from", "handoff", "--case", "idle", "--size", "4KiB")
        for bench in ("handoff", "chunks"):
            for seconds in ("nan", "inf", "0", "-1"):
                self.refused("--seconds", bench, "--seconds", seconds)

    def test_a_partner_that_is_killed_ends_the_bench_at_once(self):
        bench = subprocess.Popen([STAGEWIRE, "bench", "handoff", "--rounds", "100", "--seconds", "60", "--case", "read"],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with bench:
            children = pathlib.Path(f"/proc/{bench.pid}/task/{bench.pid}/children")
            while not (partner := children.read_text().split()):
                self.assertIsNone(bench.poll())
            os.kill(int(partner[0]), signal.SIGKILL)
            self.assertIn("the other process is gone", bench.communicate(timeout=60)[1])
            self.assertEqual(bench.returncode, 1)

    def test_a_bench_that_is_killed_leaves_no_process(self):
        bench = subprocess.Popen([STAGEWIRE, "bench", "handoff", "--rounds", "100", "--seconds", "60", "--case",
                                  "eager-spin"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with bench:
            children = pathlib.Path(f"/proc/{bench.pid}/task/{bench.pid}/children")
            ends = []
            while len(ends) < 2:  # the partner, and the yardstick's other process, which comes and goes
                self.assertIsNone(bench.poll())
                for end in ends:
                    os.close(end)
                ends = open_processes(children.read_text().split())
            bench.kill()
            for end in ends:
                self.assertTrue(select.select([end], [], [], 60)[0], "it goes on")
                os.close(end)


def open_processes(pids):
    """Of those that are still there."""
    ends = []
    for pid in pids:
        try:
            ends.append(os.pidfd_open(int(pid)))
        except ProcessLookupError:
            continue
    return ends


if __name__ == "__main__":
    unittest.main()
