"""Programs that measure an accelerator and compare its results with the CPU's. They need torch and
the package anyaccel, and each runs in its own process.
"""
