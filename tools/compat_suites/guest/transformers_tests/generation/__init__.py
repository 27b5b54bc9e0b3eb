"""Stands in for files that are missing from the source distribution of transformers."""
