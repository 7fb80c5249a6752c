"""./run on a machine without the packages: what is installed, and what is said when nothing may be."""
import pathlib
import tempfile
import unittest

import support

MISSING = "libopus-dev"
LINES = [line.split() for line in (support.ROOT / "scripts" / "packages").read_text().splitlines()]
PRESENT = [words[1] for words in LINES if words[:1] == ["build"] and words[1] != MISSING]


class Packages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bin = pathlib.Path(folder.name)
        self.log = self.bin / "log"
        self.fake("dpkg-query", "\n".join(f"echo 'ii  {name}'" for name in PRESENT) + f"\necho 'un  {MISSING}'\nexit 1")
        self.fake("apt-get", f'echo "apt-get $*" >> {self.log}')
        self.fake("id", "echo 0")

    def fake(self, name, script):
        (self.bin / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.bin / name).chmod(0o755)

    def install(self, may_install):
        return support.run("scripts/install", may_install, "build", path=self.bin)

    def test_only_what_is_missing_is_installed(self):
        result = self.install("yes")
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertEqual(self.log.read_text().splitlines(),
                         ["apt-get -q update", f"apt-get -qy install --no-install-recommends {MISSING}"])

    def test_nothing_is_asked_of_apt_when_nothing_is_missing(self):
        self.fake("dpkg-query", "\n".join(f"echo 'ii  {name}'" for name in (*PRESENT, MISSING)))
        result = self.install("yes")
        self.assertEqual((result.returncode, result.stdout), (0, ""))
        self.assertFalse(self.log.exists())

    def test_no_install_names_the_packages_and_the_command(self):
        result = support.run("./run", "--no-install", "build", path=self.bin)
        self.assertEqual(result.returncode, 2, result.stdout)
        self.assertIn(f"these packages are missing: {MISSING}\n", result.stdout)
        self.assertIn(f"apt-get install --no-install-recommends {MISSING}\n", result.stdout)
        self.assertFalse(self.log.exists())

    def test_no_install_is_heard_wherever_it_stands(self):
        result = support.run("./run", "build", "--no-install", path=self.bin)
        self.assertEqual(result.returncode, 2, result.stdout)
        self.assertIn(f"these packages are missing: {MISSING}\n", result.stdout)
        self.assertFalse(self.log.exists())

    def test_another_user_than_root_goes_through_sudo(self):
        self.fake("id", "echo 1000")
        self.fake("sudo", f'echo "sudo $*" >> {self.log}')
        self.assertEqual(self.install("yes").returncode, 0)
        self.assertEqual(self.log.read_text().splitlines()[0], "sudo apt-get -q update")

    def test_a_failed_installation_is_an_error(self):
        self.fake("apt-get", "exit 100")
        self.assertNotEqual(self.install("yes").returncode, 0)


class Words(unittest.TestCase):
    def test_an_unknown_word_is_refused(self):
        result = support.run("./run", "frobnicate")
        self.assertEqual(result.returncode, 2)
        self.assertIn("there is no word 'frobnicate'", result.stdout)

    def test_help_lists_every_word(self):
        result = support.run("./run", "help")
        self.assertEqual(result.returncode, 0)
        for word in ("demo", "build", "test", "bench", "wheel", "check", "fmt", "clean", "help"):
            self.assertIn(f"\n  {word} ", result.stdout)

    def test_an_unknown_suite_is_refused_before_anything_is_built(self):
        result = support.run("scripts/run_tests", "unti")
        self.assertEqual(result.returncode, 2)
        self.assertIn("there is no suite unti", result.stdout)


if __name__ == "__main__":
    unittest.main()
