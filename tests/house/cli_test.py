"""The command line of the stagewire program, apart from what each command does."""
import json
import os
import pathlib
import tempfile
import unittest

import support

STAGEWIRE = support.BUILD / "stagewire"


class CommandLine(unittest.TestCase):
    def assert_usage_error(self, words, *arguments):
        result = support.run(STAGEWIRE, *arguments)
        self.assertEqual(result.returncode, 2, result.stdout)
        self.assertIn(words, result.stdout)

    def test_an_unknown_command_is_refused_with_the_nearest_one(self):
        self.assert_usage_error("there is no command 'doctr'; did you mean doctor?", "doctr")

    def test_an_unknown_command_that_is_like_none_is_refused_with_them_all(self):
        self.assert_usage_error("there is no command 'xyzzy'; known: bench, check, doctor, serve", "xyzzy")

    def test_no_command_shows_them_all(self):
        self.assert_usage_error("\n  doctor ")

    def test_an_unknown_option_is_refused(self):
        self.assert_usage_error("--formt", "doctor", "--formt", "json")

    def test_a_value_that_an_option_cannot_have_is_refused(self):
        self.assert_usage_error("xml", "doctor", "--format", "xml")

    def test_help_and_version_are_no_errors(self):
        for arguments in (["--help"], ["--version"], ["doctor", "--help"]):
            with self.subTest(arguments=arguments):
                self.assertEqual(support.run(STAGEWIRE, *arguments).returncode, 0)


class StandardStreams(unittest.TestCase):
    SPEECH = ("--deploy-config", "deploy/speech_intranode.yaml", "--input", "examples/speech.wav", "--output")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def shell(self, words):
        return support.run("bash", "-c", words)

    def serve(self, name):
        output = self.folder / name
        return " ".join(map(str, (STAGEWIRE, "serve", *self.SPEECH, output))), output

    def test_closed_streams_do_not_end_up_in_the_output(self):
        command, output = self.serve("open.wav")
        self.assertEqual(self.shell(command).returncode, 0)
        wanted = output.read_bytes()
        command, output = self.serve("closed.wav")
        self.assertEqual(self.shell(f"{command} --log-stats <&- >&- 2>&-").returncode, 0)
        self.assertEqual(output.read_bytes(), wanted)

    def test_output_that_cannot_be_written_is_an_error(self):
        serve, _ = self.serve("full.wav")
        for command in ("--version", "--help", "check deploy/speech_intranode.yaml",
                        "check --format json deploy/speech_intranode.yaml", "check --reference", "doctor",
                        "bench handoff --case idle --json", serve.removeprefix(f"{STAGEWIRE} ") + " --log-stats"):
            with self.subTest(command=command):
                result = self.shell(f"{STAGEWIRE} {command} 2>&1 >/dev/full")
                self.assertEqual(result.returncode, 1, result.stdout)
                self.assertIn("writing to the standard output: ", result.stdout)


class Limits(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        os.chmod(folder.name, 0o777)
        self.serve = " ".join(map(str, (STAGEWIRE, "serve", *StandardStreams.SPEECH, f"{folder.name}/out.wav")))

    def test_R24_as_few_descriptors_as_doctor_lets_pass_are_enough(self):
        result = support.run("bash", "-c", f"ulimit -n 64; {STAGEWIRE} doctor && exec {self.serve}")
        self.assertEqual(result.returncode, 0, result.stdout)

    def test_too_few_descriptors_are_named_with_the_command(self):
        result = support.run("bash", "-c", f"ulimit -n 40; exec {self.serve}")
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertRegex(result.stdout, "may have 40 file descriptors .RLIMIT_NOFILE.*ulimit -n")

    @unittest.skipIf(os.geteuid() != 0, "root has no such limit, and only root can become somebody who has one")
    def test_too_few_threads_are_named_with_the_command(self):
        result = support.run("setpriv", "--reuid", "65533", "--regid", "65533", "--clear-groups", "bash", "-c",
                             f"ulimit -u 5; exec {self.serve}")
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertRegex(result.stdout, "RLIMIT_NPROC 5; raise it with 'ulimit -u'")


class Doctor(unittest.TestCase):
    def test_R24_the_json_report_says_whether_this_host_will_do(self):
        result = support.run(STAGEWIRE, "doctor", "--format", "json")
        self.assertEqual(result.returncode, 0, result.stdout)
        report = json.loads(result.stdout)
        self.assertTrue(report["one_host"])
        for finding in report["findings"]:
            self.assertEqual(set(finding), {"topic", "name", "state", "value", "advice", "command"})

    def test_R10_without_a_network_nothing_can_run_and_is_said_so(self):
        result = support.run("unshare", "--map-root-user", "--net", STAGEWIRE, "doctor")
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertRegex(result.stdout, r"FAIL +one_host +host: auto finds no address")
        self.assertIn("ip link set lo up", result.stdout)

    def test_R24_too_few_descriptors_are_a_problem_with_a_way_out(self):
        result = support.run("bash", "-c", f"ulimit -n 48; exec {STAGEWIRE} doctor")
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertRegex(result.stdout, r"FAIL +nofile +48")
        self.assertIn("Pipelines on this host cannot run", result.stdout)


if __name__ == "__main__":
    unittest.main()
