"""Code that runs in the tests' Python process, which cannot import the rest of compat_suites."""
