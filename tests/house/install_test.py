"""What is installed is whole: another project finds, compiles against and runs with it, and it exports nothing else."""
import pathlib
import re
import tempfile
import unittest

import support

# The libraries that the library itself may be linked to. A vendor's (verbs, HIP, CUDA, UCX) are opened at run time.
ALLOWED = {"libc.so", "libm.so", "libstdc++.so", "libgcc_s.so", "ld-linux-x86-64.so", "ld-linux-aarch64.so",
           "libzmq.so", "libopus.so", "libyaml-cpp.so"}


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.prefix = pathlib.Path(cls.folder.name) / "prefix"
        result = support.run("cmake", "--install", support.BUILD, "--prefix", cls.prefix)
        assert result.returncode == 0, result.stdout
        cls.library = next(cls.prefix.glob("lib*/**/libstagewire.so"))

    def configure_consumer(self, *options):
        build = pathlib.Path(self.folder.name) / self._testMethodName
        return build, support.run("cmake", "-S", "tests/consumer", "-B", build, "-G", "Ninja",
                                  f"-DCMAKE_PREFIX_PATH={self.prefix}", *options)

    def test_another_project_builds_and_runs_with_it(self):
        build, configured = self.configure_consumer()
        self.assertEqual(configured.returncode, 0, configured.stdout)
        built = support.run("cmake", "--build", build)
        self.assertEqual(built.returncode, 0, built.stdout)
        ran = support.run(build / "consumer")
        self.assertEqual(ran.returncode, 0, ran.stdout)

    def test_a_version_that_it_is_not_is_not_found(self):
        _, configured = self.configure_consumer("-DWANTED_VERSION=9.0")
        self.assertNotEqual(configured.returncode, 0)
        self.assertIn("9.0", configured.stdout)

    def test_every_public_header_stands_alone(self):
        for header in sorted(self.prefix.glob("include/stagewire/*.hpp")):
            with self.subTest(header=header.name):
                result = support.run("g++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-x", "c++",
                                     f"-I{self.prefix}/include", "-include", header, "/dev/null")
                self.assertEqual(result.returncode, 0, result.stdout)

    def test_nothing_but_our_own_names_is_exported(self):
        symbols = support.run("nm", "-DC", "--defined-only", self.library).stdout.splitlines()
        names = [line.split(" ", 2)[2] for line in symbols]
        self.assertTrue(names)
        ours = re.compile(r"((typeinfo|typeinfo name|vtable) for )?stagewire::\w")
        rooms = re.compile(r"stagewire::(base|memory|wire|control|engine|backend|shm|local|fault|cli)::")
        self.assertEqual([name for name in names if not ours.match(name) or rooms.search(name.split("(")[0])], [])

    def test_no_vendor_library_is_linked(self):
        needed = re.findall(r"NEEDED.*\[(.*?)\]", support.run("readelf", "-d", self.library).stdout)
        self.assertTrue(needed)
        self.assertEqual([name for name in needed if name.split(".so")[0] + ".so" not in ALLOWED], [])


if __name__ == "__main__":
    unittest.main()
