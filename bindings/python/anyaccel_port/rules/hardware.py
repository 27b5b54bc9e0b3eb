"""Rules for names and properties of NVIDIA's device models."""

from .rule import Rule

RULES = (
    Rule("peak-flops", "the peak throughput of an NVIDIA device", "review", ("number:flops", ), {},
         "The number applies to one NVIDIA device. Let the user set it, or look it up by `device_properties().name`.",
         "flops_promised = 312e12"),
    Rule("device-name-table", "a table with the names of NVIDIA devices", "review",
         ("string:A100", "string:H100", "string:V100", "string:RTX", "string:GeForce", "string:Tesla"), {},
         "The table has no entry for other accelerators. Look the device up by `get_accelerator().device_properties().name`, add "
         "entries for other devices, and let the user set the value for a device without an entry.",
         'PEAK_FLOPS = {"A100": 312e12, "H100": 989e12}'),
    Rule("device-name-comparison", "a comparison with the name of an NVIDIA device", "review", ("string:compare H100", ), {},
         "Other accelerators never take this branch. Query the feature that the branch needs, such as `is_bf16_supported()`, or "
         "the memory with `device_properties().total_memory`.",
         'if "H100" in torch.cuda.get_device_name(): ...'),
    Rule("scheduler-device", "a request for an NVIDIA device model in a job scheduler", "review",
         ("string:volta", "string:ampere", "string:hopper", "shell:gpu:a100", "shell:gpu:v100", "shell:gpu:h100"), {},
         "The job runs only on nodes with this device. Let the user select the nodes.",
         'parameters = {"slurm_constraint": "volta32gb"}'),
)  # yapf: disable
