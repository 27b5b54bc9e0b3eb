"""The conformance kit on a backend of this process: `python -m anyaccel.conformance --backend NAME` judges one that an entry
point registers, and `main([...])` one that the program registered itself. Options are those of `anyaccel conformance`.

Cases run in forked children, so call it before anything uses a device; docs/conformance.md says what the results mean."""

import sys


def main(arguments=None):
    """Runs the kit as `anyaccel conformance` does and returns its exit code: 0 conforms, 1 does not, 2 wrong usage."""
    from . import _conformance
    sys.stdout.flush()
    words = list(sys.argv[1:] if arguments is None else arguments)
    return _conformance.run(["anyaccel conformance", *map(str, words)])


if __name__ == "__main__":
    sys.exit(main())
