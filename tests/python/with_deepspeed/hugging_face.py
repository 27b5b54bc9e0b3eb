"""Program that hugging_face_test.py runs as a rank: `hugging_face.py stock|ours FOLDER`, where
FOLDER contains a small model's checkpoint. Trains it with ZeRO-3 in a custom loop, and with
transformers' Trainer, which uses DeepSpeed through accelerate. Passes the losses, the device and
the saved weights to the test.
"""

import pathlib
import sys
import tempfile

import safetensors.torch
import torch

import ranks
import small_models
import stock

STEPS, ROWS = 12, 2
# Shard every parameter, although the parameters of this model are small.
ZERO_3 = {"train_micro_batch_size_per_gpu": ROWS, "gradient_clipping": 1.0,
          "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0, "stage3_gather_16bit_weights_on_model_save": True}}


def words(rank):
    return [small_models.words(rows=ROWS, length=16, seed=10 * step + rank + 1) for step in range(STEPS)]


def loop(folder):
    """Train as Hugging Face documents for programs without a Trainer: the configuration exists
    before the model is loaded.
    """
    import deepspeed
    import transformers
    from transformers.integrations import HfDeepSpeedConfig
    kept = HfDeepSpeedConfig(ZERO_3)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    split = all(hasattr(parameter, "ds_id") and parameter.numel() == 0 for parameter in model.parameters())
    engine = deepspeed.initialize(model=model, config=ZERO_3 | {"zero_allow_untested_optimizer": True},
                                  optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3))[0]
    engine.train()
    losses = []
    for batch in words(ranks.rank()):
        batch = batch.to(engine.device)
        loss = engine(input_ids=batch, labels=batch).loss
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    device = str(engine.device)
    engine.destroy()
    del kept
    return {"losses": losses, "device": device, "split": split}


class Rows(torch.utils.data.Dataset):

    def __init__(self):
        self.rows = torch.cat([torch.cat([words(rank)[step] for rank in range(ranks.COUNT)]) for step in range(STEPS)])

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


def trainer(folder):
    import transformers
    with tempfile.TemporaryDirectory() as out:
        options = transformers.TrainingArguments(out, deepspeed={**ZERO_3, "zero_allow_untested_optimizer": True}, max_steps=STEPS, logging_steps=1,
                                                 per_device_train_batch_size=ROWS, learning_rate=1e-3, report_to=[], save_strategy="no",
                                                 disable_tqdm=True, seed=0, bf16=False, optim="adamw_torch")
        model = transformers.AutoModelForCausalLM.from_pretrained(folder)
        made = transformers.Trainer(model=model, args=options, train_dataset=Rows())
        made.train()
        saved = tempfile.mkdtemp(dir=out)
        made.save_model(saved)  # gathers the sharded parameters
        files = pathlib.Path(saved).glob("*.safetensors")  # only rank 0 writes files
        numbers = {name: weight.flatten()[:8].tolist() for file in files for name, weight in safetensors.torch.load_file(file).items()}
        return {"losses": [each["loss"] for each in made.state.log_history if "loss" in each], "device": str(made.accelerator.device),
                "engine": type(made.model_wrapped).__name__, "saved": numbers}


def main(side, folder):
    if side == "ours":
        import anyaccel.deepspeed  # noqa: F401
    import deepspeed
    from deepspeed.accelerator import get_accelerator
    if side == "stock":
        stock.build_no_shared_memory()
    get_accelerator().set_device(ranks.rank())
    deepspeed.init_distributed(verbose=False)
    results = {"accelerator": repr(get_accelerator()), "loop": loop(folder)}
    if get_accelerator().device_name() == "cpu":  # accelerate supports a fixed list of device types
        results["trainer"] = trainer(folder)
    ranks.hand_over(results)


if __name__ == "__main__":
    main(*sys.argv[1:])
