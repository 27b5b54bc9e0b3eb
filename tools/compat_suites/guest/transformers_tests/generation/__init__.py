"""In place of files that the source distribution of transformers lacks."""
