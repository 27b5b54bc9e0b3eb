"""The folder that DeepSpeed lists for the ops of its accelerator (`op_builder_dir()`)."""
