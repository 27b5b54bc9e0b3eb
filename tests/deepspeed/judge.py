"""Run the conformance kit on one of DeepSpeed's accelerators.

  judge.py NAME ADAPTER_FOLDER [OPTION OF THE KIT]...

The exit code is that of the kit: 0 if the accelerator conforms, 1 if it does not. If the kit cannot
run, the exit code is 3, and one line on standard output says why.
"""
import importlib
import sys


def refuse(reason):
    print(" ".join(str(reason).split()))
    sys.exit(3)


def main():
    name, folder, options = sys.argv[1], sys.argv[2], sys.argv[3:]
    import torch

    # Builds of torch without support for a device type still define the type, but lack the Python
    # functions that DeepSpeed's accelerator calls.
    built = {"cuda": torch.backends.cuda.is_built, "xpu": torch.xpu._is_compiled, "mps": torch.backends.mps.is_built}
    if not built.get(name, lambda: True)():
        refuse(f"this torch was built without {name}")
    try:
        module = importlib.import_module(f"deepspeed.accelerator.{name}_accelerator")
        classes = [value for key, value in vars(module).items() if key.lower() == f"{name}_accelerator"]
        accelerator = classes[0]()
        count = accelerator.device_count()
    except Exception as error:  # noqa: BLE001: any exception is the reason
        refuse(f"{type(error).__name__}: {error}")
    if count < 1:
        refuse("the accelerator reports no devices")
    sys.path.insert(0, folder)
    import deepspeed_adapter

    return deepspeed_adapter.judge(accelerator, f"deepspeed-{name}", options)


if __name__ == "__main__":
    sys.exit(main())
