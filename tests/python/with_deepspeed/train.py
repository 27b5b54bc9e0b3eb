"""One training of 20 steps for training_test.py: `train.py stock|ours STAGE OPTIMIZER [offload] [bf16]`; prints its losses as JSON."""

import json
import sys


def main(side, stage, optimizer_name, *options):
    if side == "ours":
        import anyaccel.deepspeed  # noqa: F401
    import torch

    import deepspeed
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
    cls = deepspeed.ops.adam.DeepSpeedCPUAdam if optimizer_name == "cpu_adam" else torch.optim.AdamW
    zero = {"stage": int(stage)}
    if "offload" in options:
        zero["offload_optimizer"] = {"device": "cpu"}
    config = {"train_batch_size": 8, "zero_optimization": zero, "zero_allow_untested_optimizer": True,
              "zero_force_ds_cpu_optimizer": False, "bf16": {"enabled": "bf16" in options}}
    engine = deepspeed.initialize(model=model, config=config,
                                  optimizer=cls(model.parameters(), lr=1e-2, weight_decay=0.01))[0]
    numbers = torch.Generator().manual_seed(1)
    kind = torch.bfloat16 if "bf16" in options else torch.float32
    x = torch.randn(8, 8, generator=numbers).to(engine.device, kind)
    y = torch.randn(8, 4, generator=numbers).to(engine.device, kind)
    losses = []
    for _ in range(20):
        loss = torch.nn.functional.mse_loss(engine(x), y)
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    print("RESULT " + json.dumps({"losses": losses, "accelerator": repr(deepspeed.accelerator.get_accelerator())}))


if __name__ == "__main__":
    main(*sys.argv[1:])
