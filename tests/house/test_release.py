"""A release: one version everywhere, its tag, and a workflow that publishes what was run."""

import re
import subprocess
import tomllib

import yaml

import fedsim


def test_citation_and_changelog_have_the_version_and_another_tag_builds_nothing(root):
    citation = yaml.safe_load((root / "CITATION.cff").read_text())
    assert str(citation["version"]) == fedsim.__version__
    assert f"\n## {fedsim.__version__}\n" in (root / "CHANGELOG.md").read_text()

    tag = fedsim.__version__  # without its v
    done = subprocess.run([root / ".ci/package", tag], capture_output=True, text=True)
    assert done.returncode == 1 and not done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"the tag is {tag}, but fedsim/_version.py says {fedsim.__version__}: ")


def test_what_is_published_was_built_from_the_tag_and_run(root):
    workflow = yaml.safe_load((root / ".github/workflows/publish.yml").read_text())
    assert workflow[True] == {"push": {"tags": ["v*"]}}  # YAML reads `on` as a truth value
    build, publish = workflow["jobs"]["build"], workflow["jobs"]["publish"]
    assert '.ci/package "$GITHUB_REF_NAME"' in [step.get("run") for step in build["steps"]]
    assert publish["needs"] == "build" and publish["permissions"] == {"id-token": "write"}
    assert workflow["permissions"] == {"contents": "read"} and "permissions" not in build
    assert not any("run" in step or "checkout" in step["uses"] for step in publish["steps"])
    assert "secrets." not in (root / ".github/workflows/publish.yml").read_text()


def test_every_extra_that_an_error_names_is_there(root):
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    sources = "".join(path.read_text() for path in (root / "fedsim").rglob("*.py"))
    named = set(re.findall(r"fedsim-jax\[(\w+)\]", sources))
    assert {"excel", "hdf5"} <= named <= set(project["optional-dependencies"])
