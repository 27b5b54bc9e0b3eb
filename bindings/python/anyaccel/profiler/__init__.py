"""Records programs for `anyaccel profile`, and builds the report page from a recording.

`python -m anyaccel.profiler DIR` builds DIR/profile.html, DIR/trace.json.gz and DIR/summary.txt
from the recording in DIR/raw. See docs/reference/profile.md.
"""
