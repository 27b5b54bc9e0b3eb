"""The parts of tools/cross."""
