"""Parts of the pytest plugin that are imported only if a run uses an accelerator."""
