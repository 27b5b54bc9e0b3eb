# Submodules are imported by name. Each loads its op on first use.
