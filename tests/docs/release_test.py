#!/usr/bin/env python3
"""A release has one version, and the README counts what there is.

Run as: python3 tests/docs/release_test.py PATH_TO_SLUICE [unittest options]
"""

import json
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cli"))

from harness import main, sluice, unittest  # noqa: E402


def found(file, pattern):
    return re.findall(pattern, (ROOT / file).read_text(), re.MULTILINE)


class Version(unittest.TestCase):
    VERSION = found("CMakeLists.txt", r"project\(Sluice VERSION (\S+)")[0]

    def test_is_the_same_everywhere(self):
        minor = self.VERSION.rsplit(".", 1)[0]
        self.assertEqual(found("CITATION.cff", r"^version: (\S+)"), [self.VERSION])
        self.assertEqual(sluice("--version").stdout.split()[1], self.VERSION)
        for file in ("README.md", "examples/cmake_project/CMakeLists.txt"):
            self.assertEqual(found(file, r"find_package\(Sluice (\S+) REQUIRED"), [minor], file)
        self.assertEqual(found("README.md", r"^Version ([\d.]+\d)"), [minor])
        # pyproject.toml takes it from CMakeLists.txt.
        pattern = found("pyproject.toml", r"^regex = '(.*)'")[0]
        self.assertEqual(re.search(pattern, (ROOT / "CMakeLists.txt").read_text())["value"], self.VERSION)

    def test_is_the_last_one_of_the_changelog(self):
        headings = found("CHANGELOG.md", r"^## (\S+)")
        self.assertEqual(headings[:2], ["Unreleased", self.VERSION])


class Package(unittest.TestCase):
    """What `pip show` prints."""

    def test_has_an_author_a_short_licence_and_classifiers(self):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        self.assertEqual([project["license"]["text"]], found("CITATION.cff", r"^license: (\S+)"))
        self.assertEqual([author["name"] for author in project["authors"]], found("CITATION.cff", r'^  - name: "(.*)"'))
        self.assertIn("License :: OSI Approved :: Apache Software License", project["classifiers"])


class Counts(unittest.TestCase):
    def test_of_the_readme_are_right(self):
        listed = json.loads(sluice("list", "--json").stdout)
        for title, kind in (("Sparsifiers", "sparsifiers"), ("Feedback", "feedback"), ("Collectives", "collectives"),
                            ("Planners", "planners")):
            with self.subTest(title):
                self.assertEqual(found("README.md", rf"^- \*\*{title}\*\* \((\d+)\)"), [str(len(listed[kind]))])


if __name__ == "__main__":
    main()
