"""The command `anyaccel port`, also available as `python3 -m anyaccel_port`."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Sequence

from . import baseline, files, git, options, pool, rules, write
from .analysis import Request, fixes_for
from .errors import Interrupted, PortError, UsageError
from .escaped import printable_text, quoted_text
from .report import Report, number

FAILED, USAGE, INTERRUPTED = 1, 2, 130


def _warn(message: str) -> None:
    print(f"anyaccel port: {message}", file=sys.stderr)


def _print_rules() -> None:
    width = max(map(len, rules.BY_ID))
    for rule in rules.RULES:
        print(f"{rule.id:{width}}  {rule.severity:10}  {rule.title}")


def _explain(name: str) -> None:
    if name not in rules.BY_ID:
        raise UsageError(f"no rule is named {quoted_text(name)}. `anyaccel port --rules` lists the rules.")
    rule = rules.BY_ID[name]
    print(f"{rule.id}: {rule.title}\nseverity: {rule.severity}{', harmless' if rule.harmless else ''}\n\n{rule.why}")
    for title, text in (("before", rule.before), ("after", rule.after)):
        if text:
            print(f"\n{title}:\n" + "".join(f"    {line}\n" for line in text.splitlines()), end="")


def _write(path: str, data: str | bytes) -> None:
    try:
        write.replace(path, data)
    except OSError as error:
        raise PortError(f"cannot write {quoted_text(path)}: {error.strerror}") from error


def emit(data: str | bytes, path: str | None) -> None:
    if path is not None:
        _write(path, data)
        return
    if isinstance(data, str):
        data = data.encode("utf-8", "backslashreplace")
    elif sys.stdout.isatty():
        data = printable_text(data, len(data)).encode()
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def examine(given: options.Options,
            paths: Sequence[str],
            *,
            fixes: frozenset[str] = frozenset(),
            write_files: bool = False) -> Report:
    """Examine files and folders, and return what was found."""
    found = files.discover(paths, given.root, given.exclude, given.off, given.own_files)
    if write_files and not given.force:
        git.require_clean(list(paths))
    request = Request(given.to, fixes, write_files, given.rules, given.max_file_size)
    return Report(given.to, pool.examine_files(found, request, given.jobs), given.baseline, fix=bool(fixes))


def _apply_baseline(given: options.Options, report: Report) -> None:
    if not given.baseline:
        return
    if given.update_baseline:
        try:
            baseline.dump(given.baseline, report.findings)
        except OSError as error:
            raise PortError(f"cannot write the baseline {quoted_text(given.baseline)}: {error.strerror}") from error
        _warn(f"wrote {number(sum(not f.suppressed for f in report.findings), 'finding')} to {quoted_text(given.baseline)}")
    known = baseline.read(given.baseline)
    report.stale = baseline.mark(given.baseline, known, report.findings)


def write_html(given: options.Options, report: Report) -> None:
    if given.html:
        from .output import html
        _write(given.html, html.render(report))


def _report(given: options.Options, report: Report) -> None:
    name = "diff" if given.diff else "json_" if given.format == "json" else given.format
    emit(importlib.import_module(f".output.{name}", __package__).render(report), given.output)
    write_html(given, report)
    for message in report.missing:
        _warn(message)
    for result in report.failures:
        _warn(f"{quoted_text(result.file)} was not {'changed' if given.fix else 'examined'}: {printable_text(result.failure)}")
    if given.diff:
        for result in report.broken:
            _warn(f"{quoted_text(result.file)} was not changed: {printable_text(result.error)}")


def run(words: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    given = options.parse(words)
    if given.rules_list or given.explain:
        _explain(given.explain) if given.explain else _print_rules()
        return 0
    if given.verify:
        from . import verify
        try:
            return verify.run(given)
        except KeyboardInterrupt:
            raise Interrupted(0) from None  # verify writes copies
    fixes = fixes_for(given.unsafe_fixes) if given.fix or given.diff else frozenset()
    report = examine(given, given.paths, fixes=fixes, write_files=given.fix)
    try:
        _apply_baseline(given, report)
        _report(given, report)
    except KeyboardInterrupt:
        raise Interrupted(report.written) from None
    if report.failures:
        return FAILED
    return FAILED if given.check and (report.failing or report.broken or report.missing) else 0


def main(words: Sequence[str] | None = None) -> int:
    try:
        return run(sys.argv[1:] if words is None else words)
    except UsageError as error:
        print(f"anyaccel port: error: {error}\nTry 'anyaccel port --help'.", file=sys.stderr)
        return USAGE
    except PortError as error:
        _warn(f"error: {error}")
        return FAILED
    except BrokenPipeError:  # for example with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt as error:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not change the exit code
        written = error.written if isinstance(error, Interrupted) else 0
        _warn(f"interrupted: {number(written, 'file')} {'was' if written == 1 else 'were'} written" if written else
              "interrupted: no file was written")
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
