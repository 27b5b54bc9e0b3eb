"""Runs the conformance kit on a backend in this process.

`python -m anyaccel.conformance --backend NAME` tests a backend that an entry point registers.
`main([...])` tests a backend that the program registered. The options are those of `anyaccel
conformance`. Cases run in forked children, so call this before using a device.
docs/reference/conformance.md explains the results.
"""

import sys
from collections.abc import Iterable

_added = set()


def main(arguments: "Iterable[object] | None" = None) -> int:
    """Run the kit like `anyaccel conformance`.

    Return the exit code: 0 conforms, 1 does not conform, 2 usage error.
    """
    from . import _conformance, backend, device_module_cases
    if "device_module" not in _added:
        _added.add("device_module")
        for grade, function in device_module_cases.CASES:
            _conformance.register_case("device_module", function.__name__, grade, function, device_module_cases.Skip)
    sys.stdout.flush()
    words = [str(word) for word in (sys.argv[1:] if arguments is None else arguments)]
    for word, after in zip(words, [*words[1:], ""]):
        # Load the entry point of the tested backend, regardless of DS_ACCELERATOR.
        if word == "--backend" or word.startswith("--backend="):
            backend.load_entry_points(word.partition("=")[2] or after)
    return _conformance.run(["anyaccel conformance", *words])


if __name__ == "__main__":
    sys.exit(main())
