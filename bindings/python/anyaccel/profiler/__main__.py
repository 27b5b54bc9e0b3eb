"""Entry point of `python -m anyaccel.profiler DIR`."""
import sys

from .report.main import main

sys.exit(main(sys.argv[1:]))
