"""`anyaccel port`: finds code that depends on CUDA, explains it and replaces it.

This package imports neither torch nor anyaccel, so it runs on machines that have neither. The rules
are data (rules/); anyaccel.as_cuda uses the same rules to redirect calls at run time.
"""
