"""Code that runs in the Python of the tests, with only this folder on its path."""
