"""Makes the tests a package. The source distribution of transformers lacks this file."""
