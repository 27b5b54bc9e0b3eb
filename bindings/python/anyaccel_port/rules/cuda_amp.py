"""Rules for torch.cuda.amp and for the tensor types of torch.cuda."""

from .methods import METHODS
from .rule import ANYACCEL, DEEPSPEED, TORCH, Rule

_DTYPES = {
    "BFloat16Tensor": "bfloat16",
    "ByteTensor": "uint8",
    "DoubleTensor": "float64",
    "FloatTensor": "float32",
    "HalfTensor": "float16",
    "IntTensor": "int32",
    "LongTensor": "int64",
    "BoolTensor": "bool",
    "CharTensor": "int8",
    "ShortTensor": "int16"
}


def _tensor_type(name: str, dtype: str) -> Rule:
    general = f"torch.tensor({{args}}, dtype=torch.{dtype}, device={{type}})"
    to = {target: "{acc}." + name if name in METHODS else general for target in (ANYACCEL, DEEPSPEED)} | {TORCH: general}
    after = f"get_accelerator().{name}([1, 2])"
    if name not in METHODS:
        after = f"torch.tensor([1, 2], dtype=torch.{dtype}, device=get_accelerator().device_name())"
    return Rule(
        f"cuda-{name.lower()}",
        f"torch.cuda.{name}",
        "equivalent", (f"torch.cuda.{name}", ),
        to, "Creates a tensor of this dtype on the accelerator. If the arguments are sizes instead of data, torch.empty() is the "
        "replacement.",
        f"torch.cuda.{name}([1, 2])",
        after,
        runtime=name if name in METHODS else "")


TENSOR_TYPES = tuple(_tensor_type(name, dtype) for name, dtype in _DTYPES.items())

AMP = (
    Rule("cuda-amp-autocast",
         "torch.cuda.amp.autocast",
         "equivalent", ("torch.cuda.amp.autocast", "torch.cuda.amp.autocast_mode.autocast"), {
             ANYACCEL: "torch.autocast({type}, {args})",
             TORCH: "torch.autocast({type}, {args})",
             DEEPSPEED: "torch.autocast({type}, {args})"
         },
         "torch.autocast takes the device type. Its default dtype depends on the device, so the replacement names float16, the default "
         "of torch.cuda.amp.",
         "with torch.cuda.amp.autocast(enabled=True):\n    y = model(x)",
         "with torch.autocast(get_accelerator().device_name(), enabled=True, dtype=torch.float16):\n    y = model(x)",
         runtime="amp_autocast"),
    Rule("cuda-amp-grad-scaler",
         "torch.cuda.amp.GradScaler",
         "equivalent", ("torch.cuda.amp.GradScaler", "torch.cuda.amp.grad_scaler.GradScaler"), {
             ANYACCEL: "torch.amp.GradScaler({type}, {args})",
             TORCH: "torch.amp.GradScaler({type}, {args})",
             DEEPSPEED: "torch.amp.GradScaler({type}, {args})"
         },
         "torch.amp.GradScaler takes the device type.",
         "scaler = torch.cuda.amp.GradScaler()",
         "scaler = torch.amp.GradScaler(get_accelerator().device_name())",
         runtime="amp_grad_scaler"),
    Rule("grad-scaler-default",
         "torch.amp.GradScaler without a device",
         "equivalent", ("call:torch.amp.GradScaler()", ), {
             ANYACCEL: "{type}",
             TORCH: "{type}",
             DEEPSPEED: "{type}"
         },
         "Without a device, torch.amp.GradScaler uses CUDA, and is disabled on other accelerators.",
         "scaler = torch.amp.GradScaler()",
         "scaler = torch.amp.GradScaler(get_accelerator().device_name())"),
    Rule("cuda-amp-custom-function",
         "torch.cuda.amp.custom_fwd and custom_bwd",
         "equivalent", ("torch.cuda.amp.custom_fwd", "torch.cuda.amp.custom_bwd", "torch.cuda.amp.autocast_mode.custom_fwd",
                        "torch.cuda.amp.autocast_mode.custom_bwd"), {
                            ANYACCEL: "torch.amp.{name}({args}, device_type={type})",
                            TORCH: "torch.amp.{name}({args}, device_type={type})",
                            DEEPSPEED: "torch.amp.{name}({args}, device_type={type})"
                        },
         "torch.amp.custom_fwd and custom_bwd take the device type. A plain decorator becomes a call.",
         "@torch.cuda.amp.custom_fwd\ndef forward(ctx, x): ...",
         "@torch.amp.custom_fwd(device_type=get_accelerator().device_name())\ndef forward(ctx, x): ...",
         runtime="amp_custom"),
    Rule("cuda-amp", "torch.cuda.amp", "review", ("torch.cuda.amp", ), {
        ANYACCEL: "torch.amp",
        TORCH: "torch.amp",
        DEEPSPEED: "torch.amp"
    }, "torch.amp has the same functions, but they take the device type.", "amp = torch.cuda.amp", "amp = torch.amp"),
)

RULES = (*TENSOR_TYPES, *AMP)
