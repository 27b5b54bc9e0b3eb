"""Package in which DeepSpeed searches for its accelerator's op builders (`op_builder_dir()`)."""
