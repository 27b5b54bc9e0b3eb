"""Program that training_test.py runs as a rank: `train.py stock|ours CASE...`. Trains 20 steps per
case, and passes each case's losses and some of its final weights to the test.
"""

import sys
import tempfile

import torch

import ranks
import stock

STEPS, ROWS = 20, 8
# name: ZeRO's stage, the optimizer that `ours` uses, and options. `stock` uses torch's AdamW, which
# has the same formula, and no NVMe, because stock DeepSpeed's CPUAdam and aio would each take a
# minute to build.
CASES = {
    "zero 0": (0, "torch"),
    "zero 1": (1, "cpu_adam"),
    "zero 2": (2, "torch"),
    "zero 2 offload": (2, "cpu_adam", "offload"),
    "zero 3": (3, "torch"),
    "zero 3 cpu_adam": (3, "cpu_adam"),
    "zero 3 offload": (3, "cpu_adam", "offload", "offload_param"),
    "zero 3 nvme": (3, "cpu_adam", "nvme", "wide"),
    "zero 3 nvme pipelined": (3, "cpu_adam", "nvme", "wide", "pipelined"),
    "zero 3 nvme parameters": (3, "cpu_adam", "nvme", "nvme_parameters", "wide"),
    "checkpointing": (1, "torch", "checkpointing"),
    "checkpointing in parts": (1, "torch", "checkpointing", "parts"),
    "checkpointing with dropout": (1, "torch", "checkpointing", "dropout"),
    "bf16 zero 1": (1, "torch", "bf16"),
    "bf16 zero 3": (3, "torch", "bf16"),
    "bf16 zero 3 nvme": (3, "cpu_adam", "bf16", "nvme", "nvme_parameters", "wide"),
    "fp16 zero 1": (1, "torch", "fp16"),
    "fp16 zero 2 offload": (2, "cpu_adam", "fp16", "offload"),
    "fp16 zero 3": (3, "torch", "fp16"),
}
KINDS = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Net(torch.nn.Module):

    def __init__(self, width, options):
        super().__init__()
        self.first, self.last = torch.nn.Linear(8, width), torch.nn.Linear(width, 4)
        self.blocks = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(2))
        self.dropout = torch.nn.Dropout(0.2 if "dropout" in options else 0.0)
        self.checkpointing = "checkpointing" in options

    def forward(self, x):
        import deepspeed
        x = self.first(x)
        for block in self.blocks:
            step = lambda x, block=block: self.dropout(torch.tanh(block(x)))  # noqa: E731
            x = deepspeed.checkpointing.checkpoint(step, x) if self.checkpointing else step(x)
        return self.last(x)


def config_of(ours, stage, options, folder):
    zero = {"stage": stage, "stage3_param_persistence_threshold": 0}
    if "offload" in options:
        zero["offload_optimizer"] = {"device": "cpu"}
    if "offload_param" in options:
        zero["offload_param"] = {"device": "cpu"}
    if "nvme" in options and ours:
        zero["offload_optimizer"] = {"device": "nvme", "nvme_path": folder, "pipeline_read": "pipelined" in options,
                                     "pipeline_write": "pipelined" in options}
    if "nvme_parameters" in options and ours:
        zero["offload_param"] = {"device": "nvme", "nvme_path": folder, "buffer_count": 8, "buffer_size": 1 << 21}
    return {"train_micro_batch_size_per_gpu": ROWS, "zero_optimization": zero, "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False, "gradient_clipping": 1.0, "bf16": {"enabled": "bf16" in options},
            "fp16": {"enabled": "fp16" in options, "initial_scale_power": 8},
            "activation_checkpointing": {"partition_activations": "parts" in options}}


def weights(engine):
    """Return up to 32 elements of each parameter."""
    import deepspeed
    taken = []
    for parameter in engine.module.parameters():
        with deepspeed.zero.GatheredParameters([parameter], enabled=hasattr(parameter, "ds_id")):
            flat = parameter.detach().float().cpu().flatten()
            taken.append(flat[::max(1, flat.numel() // 32)][:32].tolist())
    return taken


def train(ours, stage, optimizer_name, *options):
    import deepspeed
    from deepspeed.accelerator import get_accelerator
    torch.manual_seed(0)
    model = Net(1024 if "wide" in options else 16, options)
    on_host = get_accelerator().device_name() == "cpu" or {"offload", "nvme"} & set(options)
    cls = deepspeed.ops.adam.DeepSpeedCPUAdam if ours and optimizer_name == "cpu_adam" and on_host else torch.optim.AdamW
    with tempfile.TemporaryDirectory() as folder:
        config = config_of(ours, stage, options, folder)
        engine = deepspeed.initialize(model=model, config=config, optimizer=cls(model.parameters(), lr=1e-4 if "wide" in options else 2e-3, weight_decay=0.01))[0]
        if "checkpointing" in options:
            deepspeed.checkpointing.configure(None, deepspeed_config=config)
        kind = next((KINDS[each] for each in options if each in KINDS), torch.float32)
        numbers = torch.Generator().manual_seed(1 + ranks.rank())
        x = torch.randn(ROWS, 8, generator=numbers).to(engine.device, kind)
        y = torch.randn(ROWS, 4, generator=numbers).to(engine.device, kind)
        losses = []
        for _ in range(STEPS):
            loss = torch.nn.functional.mse_loss(engine(x).float(), y.float())
            engine.backward(loss)
            engine.step()
            losses.append(loss.item())
        result = {"losses": losses, "weights": weights(engine), "device": str(engine.device)}
        engine.destroy()
    return result


def main(side, *names):
    if side == "ours":
        import anyaccel.deepspeed  # noqa: F401
    import deepspeed
    from deepspeed.accelerator import get_accelerator
    if side == "stock":
        stock.build_no_shared_memory()
    get_accelerator().set_device(ranks.rank())
    deepspeed.init_distributed(verbose=False)
    results = {"accelerator": repr(get_accelerator())}
    for name in names:
        if "fp16" in CASES[name] and not get_accelerator().is_fp16_supported():
            continue
        results[name] = train(side == "ours", *CASES[name])
    ranks.hand_over(results)


if __name__ == "__main__":
    main(*sys.argv[1:])
