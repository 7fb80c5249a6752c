"""The pages say what is true of the tree."""
import re
import unittest

import support


def packages():
    lines = (support.ROOT / "scripts" / "packages").read_text().splitlines()
    return {line.split()[1] for line in lines if not line.startswith("#")}


class Pages(unittest.TestCase):
    def test_the_page_of_requirements_is_up_to_date(self):
        result = support.run("scripts/requirements", "--check")
        self.assertEqual(result.returncode, 0, result.stdout)

    def test_the_page_of_dependencies_names_what_is_installed_and_nothing_else(self):
        page = (support.ROOT / "docs" / "dependencies.md").read_text()
        named = {name for row in re.findall(r"^\|[^|]*\|([^|]*)\|", page, re.MULTILINE)
                 for name in re.findall(r"`([a-z0-9+.-]+)`", row)}
        self.assertEqual(named, packages())

    def test_the_readme_shows_code_that_is_built_and_a_file_that_is_there(self):
        blocks = dict(re.findall(r"^```(\w+)\n(.*?)^```", (support.ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE))
        example = (support.ROOT / "examples" / "handoff.cc").read_text().split("  // [README]\n")[1]
        self.assertEqual(blocks["cpp"], re.sub(r"^  ", "", example, flags=re.MULTILINE))
        self.assertIn(blocks["yaml"], (support.ROOT / "deploy" / "speech_intranode.yaml").read_text())

    def test_links_between_pages_lead_somewhere(self):
        broken = []
        for page in [*support.ROOT.glob("*.md"), *support.ROOT.glob("docs/*.md"), *support.ROOT.glob("examples/*.md")]:
            for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
                if not (page.parent / target).exists():
                    broken.append(f"{page.relative_to(support.ROOT)}: {target}")
        self.assertEqual(broken, [])

    def test_the_table_of_rooms_is_the_one_that_is_checked(self):
        page = (support.ROOT / "ARCHITECTURE.md").read_text()
        rooms = set(re.findall(r"^\| `([\w/]+)` \|", page, re.MULTILINE))
        there = {str(path.relative_to(support.ROOT / "src")) for path in
                 [*support.ROOT.glob("src/*/"), *support.ROOT.glob("src/backends/*/")]} - {"backends"}
        self.assertEqual(there - rooms, set())


if __name__ == "__main__":
    unittest.main()
