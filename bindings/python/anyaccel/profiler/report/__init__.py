"""Builds the profile page, the merged trace and the text summary from a recording.

    python -m anyaccel.profiler DIR

This package uses the standard library only and does not import torch, so that it also runs on a
machine without torch: `python3 .../anyaccel/profiler/report DIR`.
"""
