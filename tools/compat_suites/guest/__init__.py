"""Code that runs in the Python process of the tests, which cannot import the rest of compat_suites.
"""
