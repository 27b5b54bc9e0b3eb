"""Checks out and builds commits for a comparison, and lists the benchmarks of each commit."""
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

# Runs in a separate process, because a commit's *.bench.py files import that commit's `runner`.
DESCRIBE = """
import dataclasses, json, pathlib, sys
here = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(here))
from runner import declare
print(json.dumps([{"name": found.name, "title": found.title, "prepare": found.prepare, "warm_up": getattr(found, "warm_up", True),
                   "sides": [dataclasses.asdict(side) for side in found.sides]} for found in declare.find(here)]))
"""


class CannotCompare(Exception):
    """Raised if the comparison cannot start. The message is one line for the user."""


@dataclasses.dataclass
class Build:
    """A commit's checkout and its build tree. `places` maps the placeholders in benchmark commands
    to paths.
    """
    word: str  # "old" or "new"
    commit: str
    subject: str
    source: pathlib.Path
    python: str
    benchmarks: dict = dataclasses.field(default_factory=dict)

    @property
    def tree(self):
        return self.source / "build" / "release"

    @property
    def here(self):
        return self.source / "benchmarks"

    @property
    def places(self):
        return {"build": str(self.tree), "python": self.python, "here": str(self.here), "repo": str(self.source)}


def quoted(text):
    return ascii(text if len(text) <= 200 else text[:200] + "...")


def git(root, *words):
    """Run git and return (exit status, output, errors)."""
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise CannotCompare(f"cannot start git: {error}. Install git.") from error
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def resolve(root, name):
    """Return (hash, subject) of a commit."""
    status, commit, _ = git(root, "rev-parse", "--verify", "--quiet", name + "^{commit}")
    if status != 0:
        raise CannotCompare(f"unknown commit: got {quoted(name)}, expected a commit, branch or tag of this repository. "
                            "List commits with `git log --oneline`; a shallow clone needs `git fetch --unshallow`.")
    return commit, git(root, "log", "-1", "--format=%s", commit)[1]


def check_clean(root):
    """Raise CannotCompare if there are uncommitted changes, because a build of HEAD would silently
    ignore them.
    """
    status, changed, errors = git(root, "status", "--porcelain", "--untracked-files=no")
    if status != 0:
        raise CannotCompare(f"{quoted(str(root))} is not a git checkout: {quoted(errors)}. Run this command in a clone.")
    if changed:
        files = changed.splitlines()
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        raise CannotCompare(f"uncommitted changes: got {quoted(files[0].split(maxsplit=1)[-1])}{more}, expected a clean working tree, because "
                            "HEAD is compared. Commit or stash the changes, or name the commit to compare with `--with`.")


def check_out(root, cache, commit):
    """Return the folder of a git worktree at this commit. An earlier worktree is reused."""
    source = cache / commit[:12]
    if not source.exists():
        source.parent.mkdir(parents=True, exist_ok=True)
        # --force, because git still lists a worktree whose folder was deleted and refuses to add it
        # again.
        status, _, errors = git(root, "worktree", "add", "--force", "--detach", str(source), commit)
        if status != 0:
            raise CannotCompare(f"{commit[:12]} cannot be checked out: {quoted(errors)}. Delete {quoted(str(source))} and try again.")
    found, changed = git(source, "rev-parse", "HEAD")[1], git(source, "status", "--porcelain", "--untracked-files=no")[1]
    if found != commit or changed:
        got = "changed files" if found == commit else f"commit {quoted(found[:12])}"
        raise CannotCompare(f"stale checkout {quoted(str(source))}: got {got}, expected {commit[:12]} as committed. Delete that folder.")
    return source


def describe(source):
    """Return a checkout's benchmarks by name, as the checkout's own runner declares them."""
    done = subprocess.run([sys.executable, "-B", "-c", DESCRIBE, str(source / "benchmarks")], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise CannotCompare(f"the benchmarks of {source.name} cannot be read: {quoted(reason)}. Compare with a later commit.")
    return {found["name"]: found for found in json.loads(done.stdout)}


def words_of(benchmark):
    """Yield all arguments of a benchmark's commands, and the values of its environment variables.
    """
    yield from benchmark["prepare"]
    for side in benchmark["sides"]:
        yield from (*side["command"], *side.get("needs", ()), *side.get("env", {}).values())


def scripts(words, here):
    """Return the Python files among a command's arguments."""
    return [path for path in dict.fromkeys(here / word.removeprefix("{here}/") for word in words if word.startswith("{here}/"))
            if path.suffix == ".py" and path.is_file()]


def data_folder(benchmark, build, cache):
    """Return the folder where a benchmark keeps its models and other files.

    Builds share the folder if the scripts that write to it are the same, because a file's pages in
    the page cache can determine how fast it is read.
    """
    digest = hashlib.sha256()
    for path in scripts(benchmark["prepare"], build.here) or scripts(words_of(benchmark), build.here):
        digest.update(path.read_bytes())
    return cache / "data" / digest.hexdigest()[:12]


def targets(benchmarks, source):
    """Return the build targets that these benchmarks use: the programs and libraries in their
    commands, and the ops that those programs load.

    An op that this function misses is compiled when the benchmark loads it, before anything is
    timed.
    """
    here = source / "benchmarks"
    words = [word for benchmark in benchmarks for word in words_of(benchmark)]
    text = "\n".join([*words, *(path.read_text(encoding="utf-8") for path in scripts(words, here))])
    found = set(re.findall(r"\{build\}/((?:bin|lib)/[\w.]+)", text))
    if "{build}/python" in text:
        found.add("anyaccel_python")
    programs = [here / (name.removeprefix("bin/bench_") + ".cpp") for name in found if name.startswith("bin/bench_")]
    programs = [path.read_text(encoding="utf-8") for path in programs if path.is_file()]
    text += "\n".join(programs)
    if "bin/anyaccel" in found or any("anyaccel/llm/" in program for program in programs):
        text += "\n".join(path.read_text(encoding="utf-8") for folder in ("llm", "comm") for path in (source / "src" / folder).rglob("*.cpp"))
    builders = set(re.findall(r"\b\w+Builder\b", text))
    for path in (source / "src" / "ops").glob("*/*.op"):
        named = re.search(r"^class_name *= *(\w+)", path.read_text(encoding="utf-8"), re.M)
        if named and named[1] in builders:
            found.add("anyaccel_prebuilt_" + path.stem)
    return sorted(found)


def jobs_that_fit():
    """Return how many compiler processes fit into memory. Compiling a source that includes LibTorch
    takes about 1.5 GiB.
    """
    with open("/proc/meminfo", encoding="ascii") as file:
        available = next((int(line.split()[1]) for line in file if line.startswith("MemAvailable")), 0)
    return max(1, min(os.cpu_count() or 1, available // 1572864))


def run_step(what, command, cwd):
    # Standard output is reserved for the table.
    if subprocess.run(command, cwd=cwd, stdout=sys.stderr, check=False).returncode != 0:
        raise CannotCompare(f"{what} failed: see the output above. Compare commits that build on this machine.")


def configure(root, build):
    options = ["-DANYACCEL_BUILD_BENCHMARKS=ON", "-DANYACCEL_BUILD_TESTS=OFF", "-DANYACCEL_CONFORMANCE=OFF", f"-DANYACCEL_PYTHON={build.python}"]
    torch = root / ".cache" / "setup" / "torch_dir"
    if torch.exists():
        options.append("-DTorch_DIR=" + torch.read_text(encoding="utf-8").strip())
    run_step(f"configuring {build.commit[:12]}", ["cmake", "--preset", "release", "--log-level=NOTICE", *options], build.source)


def compile_targets(root, build, benchmarks, jobs):
    done = subprocess.run(["cmake", "--build", str(build.tree), "--", "-t", "targets", "all"], capture_output=True, text=True, check=False)
    known = {line.split(":")[0] for line in done.stdout.splitlines()}
    wanted = [word for name in targets(benchmarks, build.source) if name in known for word in ("--target", name)]
    if wanted:
        tool = [sys.executable, str(root / "tools" / "build")]
        run_step(f"building {build.commit[:12]}", [*tool, str(build.tree), "--jobs", str(jobs), *wanted], root)
