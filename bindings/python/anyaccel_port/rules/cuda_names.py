"""Qualified names of the members of torch.cuda."""

# Functions that are also attributes of a submodule: torch.cuda.memory.empty_cache.
_SUBMODULES = {
    "memory": ("empty_cache", "memory_stats", "reset_peak_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached",
               "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_cached",
               "max_memory_cached", "mem_get_info", "memory_summary", "memory_snapshot", "set_per_process_memory_fraction",
               "get_per_process_memory_fraction", "host_memory_stats", "list_gpu_processes", "caching_allocator_alloc",
               "caching_allocator_delete", "CUDAPluggableAllocator", "change_current_allocator", "MemPool", "use_mem_pool",
               "reset_accumulated_memory_stats", "memory_stats_as_nested_dict", "get_allocator_backend"),
    "random": ("get_rng_state", "get_rng_state_all", "set_rng_state", "set_rng_state_all", "manual_seed", "manual_seed_all", "seed",
               "seed_all", "initial_seed"),
    "streams": ("Stream", "Event", "ExternalStream"),
    "graphs": ("CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"),
}


def names(name: str) -> tuple[str, ...]:
    """The qualified names of a member of torch.cuda."""
    return (f"torch.cuda.{name}", *(f"torch.cuda.{module}.{name}" for module, members in _SUBMODULES.items() if name in members))
