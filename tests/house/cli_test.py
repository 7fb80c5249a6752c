"""The command line of the stagewire program, apart from what each command does."""
import json
import unittest

import support

STAGEWIRE = support.BUILD / "stagewire"


class CommandLine(unittest.TestCase):
    def assert_usage_error(self, words, *arguments):
        result = support.run(STAGEWIRE, *arguments)
        self.assertEqual(result.returncode, 2, result.stdout)
        self.assertIn(words, result.stdout)

    def test_an_unknown_command_is_refused_with_the_nearest_one(self):
        self.assert_usage_error("there is no command 'doctr'; did you mean 'doctor'?", "doctr")

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


class Doctor(unittest.TestCase):
    def test_R24_the_json_report_says_whether_this_host_will_do(self):
        result = support.run(STAGEWIRE, "doctor", "--format", "json")
        self.assertEqual(result.returncode, 0, result.stdout)
        report = json.loads(result.stdout)
        self.assertTrue(report["one_host"])
        for finding in report["findings"]:
            self.assertEqual(set(finding), {"topic", "name", "state", "value", "advice", "command"})

    def test_R24_too_few_descriptors_are_a_problem_with_a_way_out(self):
        result = support.run("bash", "-c", f"ulimit -n 48; exec {STAGEWIRE} doctor")
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertRegex(result.stdout, r"FAIL +nofile +48")
        self.assertIn("Pipelines on this host cannot run", result.stdout)


if __name__ == "__main__":
    unittest.main()
