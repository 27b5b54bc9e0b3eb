"""Stand-ins for the programs that the files in examples/ci run as root or that download packages.
`make_shims` writes them to a folder for PATH.
"""
import os
import pathlib
import shutil
import stat
import subprocess
import sys

# Accepts the three pip commands in examples/ci, and installs only the wheel of this build.
PIP = '''
import glob, os, pathlib, re, shutil, subprocess, sys

words = [word for word in sys.argv[1:] if word != "--no-cache-dir"]
if words[0] == "install" and re.fullmatch(r"torch==[0-9.]+", words[1]) and words[2] == "--index-url" and len(words) == 4:
    from packaging.specifiers import SpecifierSet
    accepted = re.search(r'"torch ([^"]*)"', (pathlib.Path(os.environ["CI_SOURCE"]) / "pyproject.toml").read_text())[1]
    sys.exit(words[1].split("==")[1] not in SpecifierSet(accepted.replace(" ", "")))
if words[0] == "wheel" and words[2:4] == ["--no-deps", "--wheel-dir"] and len(words) == 5:
    assert (pathlib.Path(words[1]) / "pyproject.toml").exists(), words
    os.makedirs(words[4], exist_ok=True)
    shutil.copy(os.environ["CI_WHEEL"], words[4])
    sys.exit()
if words[0] == "install" and words[1].endswith(".whl") and words[2:] == ["pytest", "pytest-xdist"]:
    command = [os.environ["CI_BUILD_PYTHON"], "-m", "pip", "--python", os.environ["CI_PYTHON"], "install", "-q", "--no-deps", "--no-index"]
    sys.exit(subprocess.run([*command, words[1]]).returncode)
sys.exit(f"unexpected pip command: {words}")
'''
# Drops `-n N` if pytest-xdist is missing.
PYTEST = '''
import importlib.util, os, sys

words = sys.argv[1:]
if words[:1] == ["-n"] and importlib.util.find_spec("xdist") is None:
    words = words[2:]
os.execv(os.environ["CI_PYTHON"], [os.environ["CI_PYTHON"], "-m", "pytest", *words])
'''


def make_shims(folder, python, wheel, source):
    """Return the environment in which the shims in `folder` are found and install into `python`."""
    folder.mkdir()
    for name, text in (("pip", f"#!{sys.executable}\n{PIP}"), ("pytest", f"#!{python}\n{PYTEST}"), ("apt-get", "#!/bin/sh\n"),
                       ("sudo", '#!/bin/sh\nexec "$@"\n')):
        file = folder / name
        file.write_text(text)
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "CI_PYTHON": str(python), "CI_WHEEL": str(wheel), "CI_SOURCE": str(source),
            "CI_BUILD_PYTHON": sys.executable}


def make_project(folder, test, source):
    """Create a project with a test and, in `anyaccel`, a git repository in place of AnyAccel's."""
    (folder / "tests").mkdir(parents=True)
    (folder / "tests/test_device.py").write_text(test)
    library = folder / "anyaccel"
    library.mkdir()
    shutil.copy(pathlib.Path(source) / "pyproject.toml", library)
    for words in (("init", "-q"), ("add", "."), ("-c", "user.name=x", "-c", "user.email=x", "commit", "-q", "-m", "x")):
        subprocess.run(["git", "-C", library, *words], check=True)
