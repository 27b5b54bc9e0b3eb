"""The commands `anyaccel prove` and, in the source tree, `tools/hardware_report`. They test and measure
AnyAccel on this machine's accelerator in resumable parts, and write a report.

The modules of this package need only the standard library, because they also build AnyAccel. The
programs in `checks` need torch and the package anyaccel.
"""
