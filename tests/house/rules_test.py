"""The tree follows its own rules, and the scripts that say so can say no."""
import pathlib
import tempfile
import unittest

import support


class TreeTest(unittest.TestCase):
    """What is written in a scratch tree; each script is asked about that tree alone."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)

    def write(self, path, text):
        file = self.tree / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def assert_refused(self, script, words):
        result = support.run(f"scripts/{script}", self.tree)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn(words, result.stdout)


class Includes(TreeTest):
    def test_this_tree_follows_the_arrows(self):
        result = support.run("scripts/check_includes")
        self.assertEqual(result.returncode, 0, result.stdout)

    def test_a_lower_room_may_not_include_a_higher_one(self):
        self.write("src/base/x.cc", '#include "engine/progress.hpp"\n')
        self.assert_refused("check_includes", "src/base/x.cc:1: engine/progress.hpp: base may not include engine")

    def test_a_backend_may_not_include_another(self):
        self.write("src/backends/shm/x.cc", '#include "backends/local/local_backend.hpp"\n')
        self.assert_refused("check_includes", "backends/shm may not include backends/local")

    def test_a_public_header_includes_no_other_library(self):
        self.write("include/stagewire/x.hpp", "#include <string>\n#include <zmq.hpp>\n#include <unistd.h>\n")
        result = support.run("scripts/check_includes", self.tree)
        self.assertIn("x.hpp:2", result.stdout)
        self.assertIn("x.hpp:3", result.stdout)
        self.assertNotIn("x.hpp:1", result.stdout)

    def test_zeromq_stands_in_one_file(self):
        self.write("src/engine/x.cc", "#include <zmq.hpp>\n")
        self.assert_refused("check_includes", "src/engine/x.cc:1: zmq.hpp: only src/control/")

    def test_a_room_that_nobody_knows_is_refused(self):
        self.write("src/attic/x.cc", '#include "base/text.hpp"\n')
        self.assert_refused("check_includes", "the room attic is not in the table")


class HouseRules(TreeTest):
    def test_this_tree_follows_the_rules(self):
        result = support.run("scripts/check_house")
        self.assertEqual(result.returncode, 0, result.stdout)

    def test_a_long_function_is_found_and_a_class_is_none(self):
        body = "    work();\n" * 75
        self.write("src/base/x.cc", "namespace a {\nclass B {\n  void c() {\n" + body + "  }\n};\n}\n")
        self.assert_refused("check_house", "src/base/x.cc:3: a function of 77 lines")

    def test_many_short_functions_are_no_long_one(self):
        functions = "void f() {\n  const char* brace = \"{\";  // {\n}\n" * 40
        self.write("src/base/x.cc", "namespace a {\nstruct B {\n" + functions + "};\n}\n")
        result = support.run("scripts/check_house", self.tree)
        self.assertEqual(result.returncode, 0, result.stdout)

    def test_a_long_table_is_no_function(self):
        rows = '  {"name(", 1},\n' * 80
        self.write("src/base/x.cc", "namespace a {\nconstexpr Row kRows[] = {\n" + rows + "};\nstd::array b{\n" + rows + "};\n}\n")
        result = support.run("scripts/check_house", self.tree)
        self.assertEqual(result.returncode, 0, result.stdout)

    def test_a_long_file_is_found(self):
        self.write("tests/process/x_test.cc", "int x;\n" * 501)
        self.assert_refused("check_house", "501 lines, 500 at most")

    def test_sleeping_in_the_library_is_found_and_in_a_test_is_not(self):
        self.write("src/base/x.cc", "void f() { std::this_thread::sleep_for(x); }\n")
        self.write("src/base/x_test.cc", "void f() { std::this_thread::sleep_for(x); }\n")
        self.assert_refused("check_house", "src/base/x.cc:1: sleep_for")
        self.assertNotIn("x_test.cc", support.run("scripts/check_house", self.tree).stdout)

    def test_a_signal_that_could_go_to_every_process_is_found(self):
        self.write("tests/process/x_test.cc", "void f() { ::kill(find_stage(), 9); }\nvoid g() { child.kill(); }\n")
        self.assert_refused("check_house", "tests/process/x_test.cc:1: kill(")
        self.assertNotIn("x_test.cc:2", support.run("scripts/check_house", self.tree).stdout)

    def test_unfinished_work_is_found(self):
        self.write("src/base/x.cc", "// TO" + "DO: later\n")
        self.assert_refused("check_house", "src/base/x.cc:1")


class Formatting(unittest.TestCase):
    def test_every_file_is_formatted(self):
        files = support.run("scripts/cpp_files").stdout.split()
        self.assertTrue(files)
        result = support.run("clang-format", "--dry-run", "-Werror", *files)
        self.assertEqual(result.returncode, 0, "\n".join(result.stdout.splitlines()[:20]) + "\n./run fmt mends it")


if __name__ == "__main__":
    unittest.main()
