"""The package of the tests, which the source distribution of transformers lacks."""
