"""Entry point of `python3 .../anyaccel/profiler/report DIR`, which needs neither AnyAccel's native
module nor torch.
"""
import os
import sys

if not __package__:
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    from report.main import main
else:
    from .main import main

sys.exit(main(sys.argv[1:]))
