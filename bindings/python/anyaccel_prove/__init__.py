"""The command `anyaccel prove`, and `tools/hardware_report` in the source tree: tests and measures
AnyAccel on this machine's accelerator in resumable parts and writes a report.

The modules of this package need only the standard library, because they also build AnyAccel. The
programs in `checks` need torch and the package anyaccel.
"""
