"""Measures the peak performance of the devices in a recording: `python -m anyaccel.profiler.peak DIR`."""
