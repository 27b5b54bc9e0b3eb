"""Other strings that depend on CUDA: backends, tensor types, environment variables, messages, commands."""

from __future__ import annotations

import re

import libcst as cst

from .. import rules
from .scopes import dotted
from .source import EQUIVALENT, NONE, REVIEW, Source
from .uses import Use, literal, use_of

_VARIABLE = re.compile(r"(?:CUDA|NVCC|NCCL|PYTORCH_CUDA|TORCH_CUDA|TORCH_NCCL|NVIDIA|CUDNN|CUBLAS|NVTE)_[A-Z0-9_]+$")
_TENSOR_TYPE = re.compile(r"torch\.cuda\.(\w+)Tensor$")
_MEMBER = re.compile(r"torch\.cuda(?:\.\w+)*$")
_MESSAGE = re.compile(r"CUDA out of memory|CUDA error|CUDNN_STATUS|CUBLAS_STATUS|cuDNN error|CUDA driver")
_PROFILER = re.compile(r"(?:self_)?cuda_(?:time_total|time|memory_usage)$")
_SOURCE = re.compile(r"[\w./{}*-]+\.cuh?$")
_FLAG = re.compile(r"-gencode|-?arch=(?:compute|sm)_|-arch=sm_|__CUDA_NO_|-D\w*CUDA|--use_fast_math|"
                   r"--expt-|-Xptxas|--ptxas-options")
_LIBRARY = re.compile(r"(?:lib)?(?:cudart|cuda|nccl|nvrtc|cublas|cudnn|nvidia-ml|nvToolsExt)[\w.-]*(?:\.so|\.dll)[.\d]*$")
_COMMAND = re.compile(r"\bnvidia-smi\b|\bnvcc\b")
_NOTABLE = re.compile(
    r"cuda|CUDA|nccl|NCCL|nvidia|NVIDIA|nvcc|-gencode|-arch|fast_math|--expt|-Xptxas|--ptxas|arch=|\.cuh?$|CUBLAS|CUDNN|NVTE|NVCC|"
    r"flash_attention|kernels-community|/flash|_8bit|_32bit|_bnb|8bit$")
_KERNELS = re.compile(r"kernels-community/[\w.-]+|[\w.-]+/flash[-_]?(?:attn|attention|mla)[\w.-]*$")
_OPTIMIZER = re.compile(r"paged_(?:adam|lion|ademamix)\w*|\w+_bnb(?:_(?:8|32)bit)?|"
                        r"(?:adamw?|lion|sgd|rmsprop|lamb|lars|ademamix)_?8bit")
DTYPES = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Byte": "uint8",
    "Char": "int8",
    "Bool": "bool"
}


def text(source: Source, node: cst.SimpleString, value: str) -> None:
    if not _NOTABLE.search(value) or len(value) > 2000:
        return
    use = use_of(source, node)
    if use.kind in ("statement", "log", "annotation") and not (use.kind == "annotation" and _MEMBER.match(value)) or use.name in (
            "help", "description", "desc"):
        return
    span = source.tree.span(node)
    if value in ("nccl", "cpu:gloo,cuda:nccl"):
        _nccl(source, node, value, use)
    elif _VARIABLE.match(value):
        _variable(source, node, value, use)
    elif match := _TENSOR_TYPE.match(value):
        tensor_type(source, node, match.group(1), use)
    elif _MEMBER.match(value):
        rule = rules.find(value)
        plain = value.rsplit(".", 1)[-1]
        if use.kind == "annotation" and plain in ("Stream", "Event"):
            source.add(rule.id, span, node, f'"torch.{plain}"')
        else:
            source.add(rule.id, span, node, severity=REVIEW, message="The name of a member of torch.cuda in a string.")
    elif _PROFILER.match(value):
        source.add("profiler-cuda-time", span, node, source.text[span[0]:span[1]].replace("cuda_", "device_"))
    elif _MESSAGE.search(value) and use.kind in ("compare", "argument") and (use.kind == "compare" or use.name == "match"):
        source.add("message-out-of-memory", span, node)
    elif value == "CUDA" and use.kind == "argument" and _is_dispatch(use):
        source.add("dispatch-key", span, node)
    elif value in ("nvcc", "cuda_sources") and use.kind == "key":
        source.add("cuda-extension", span, node)
    elif value == "nvcc" and use.kind == "subscript":
        subscript = source.names.parent(source.names.parent(source.names.parent(node)))
        source.add("cuda-extension", source.tree.span(subscript) if isinstance(subscript, cst.Subscript) else span, node)
    elif re.fullmatch(r"flash_attention_[23]", value):
        if use.collection and ({"eager", "sdpa"} & set(use.others) or not _first_of_build(source, node)):
            return  # one of several choices
        source.add("flash-attention-setting", span, node)
    elif _KERNELS.match(value):
        source.add("hub-kernel-name", span, node)
    elif _OPTIMIZER.fullmatch(value):
        source.add("bitsandbytes-optimizer", span, node)
    elif _SOURCE.match(value) and not value.startswith("."):
        if _first_of_build(source, node, is_source=True):
            source.add("cuda-source", span, node)
    elif _FLAG.search(value) and _first_of_build(source, node):
        source.add("cuda-extension", span, node)
    elif re.search(r"CUDA_VISIBLE_DEVICES=", value) and use.kind != "log":
        source.add("visible-devices", span, node, severity=REVIEW)
    elif _LIBRARY.match(value):
        source.add("cuda-runtime", span, node)
    elif value == "cudagraphs":
        source.add("inductor-cudagraphs", span, node)
    elif _COMMAND.search(value) and (use.kind in ("argument", "assign", "format") or use.collection) and not _is_text(value):
        alone = value == "nvidia-smi" and use.collection and not use.others and isinstance(source.names.parent(node), cst.Element)
        template = source.template(rules.BY_ID["nvidia-tools"]) if alone else None
        source.add("nvidia-tools", span, node, template, severity=REVIEW if template else NONE)


def _first_of_build(source: Source, node: cst.SimpleString, is_source: bool = False) -> bool:
    """Whether a source or a flag of a compiler is the first one in its list. Flags of CUDAExtension belong to its finding."""
    container = None
    parent = source.names.parent(node)
    while parent is not None and not isinstance(parent, cst.BaseSmallStatement):
        if isinstance(parent, (cst.List, cst.Tuple, cst.Dict, cst.Set)):
            container = parent
        if isinstance(parent, cst.Call) and not is_source and source.names.qualified(parent.func).endswith(".CUDAExtension"):
            return False
        parent = source.names.parent(parent)
    if container is None:
        return True
    first = id(container) not in source.done
    source.done.add(id(container))
    return first


def _is_text(value: str) -> bool:
    """Whether a string is a sentence rather than a command."""
    return bool(re.match(r"[A-Z][a-z]+ |\s*$", value)) or "\n" in value.strip()


def _is_dispatch(use: Use) -> bool:
    function = dotted(use.call.func)
    return function.rsplit(".", 1)[-1] in ("impl", "register_kernel", "Library", "custom_op", "dispatch", "define")


def _nccl(source: Source, node: cst.SimpleString, value: str, use: Use) -> None:
    rule = rules.BY_ID["nccl"]
    template = source.template(rule)
    span = source.tree.span(node)
    if use.kind in ("pattern", "subscript", "annotation", "key"):
        source.add(rule.id, span, node, severity=REVIEW)
        return
    if value != "nccl":
        quote = "'" if node.quote.startswith('"') else '"'
        template = f"f{quote}cpu:gloo,{{{{type}}}}:{{{template}}}{quote}" if template else None
    clear = _is_backend(source, use)
    source.add(rule.id, span, node, template, severity="" if clear else REVIEW)


def _is_backend(source: Source, use: Use) -> bool:
    if any(other in ("gloo", "mpi", "hccl", "ccl", "xccl") for other in use.others):
        return True
    if use.kind == "argument":
        function = dotted(use.call.func)
        options = " ".join(t for arg in use.call.args if (t := literal(arg.value)))
        if use.name in ("default", "choices"):
            return "backend" in options or "dist" in options
        return "backend" in use.name or not use.name or "backend" in function
    if use.kind == "compare":
        return True
    return "backend" in use.name.lower() or "nccl" in use.name.lower() or use.kind == "return"


def _variable(source: Source, node: cst.SimpleString, value: str, use: Use) -> None:
    if value == "CUDA_VISIBLE_DEVICES":
        _visible_devices(source, node, use)
    elif use.kind in ("subscript", "argument", "key", "compare", "iterate", "assign", "other", "format"):
        source.add("cuda-variable", source.tree.span(node), node)


def _visible_devices(source: Source, node: cst.SimpleString, use: Use) -> None:
    """`os.environ["CUDA_VISIBLE_DEVICES"] = ids` becomes a call; elsewhere, only the name is replaced."""
    rule = rules.BY_ID["visible-devices"]
    template = source.template(rule)
    parents = [node]
    while len(parents) < 6 and (parent := source.names.parent(parents[-1])) is not None:
        parents.append(parent)
    assign = parents[5] if len(parents) == 6 and isinstance(parents[5], cst.Assign) else None
    if template is None or use.kind != "subscript" or assign is None or len(assign.targets) != 1 or dotted(
            parents[3].value) != "os.environ":
        source.add(rule.id, source.tree.span(node), node, template)
        return
    ids = literal(assign.value)
    environment = source.tree.source(parents[3].value)
    if ids is not None:
        items = ", ".join(f'"{item.strip()}"' for item in ids.split(",") if item.strip())
        source.add(rule.id, source.tree.span(assign), node, f"{{acc}}.set_visible_devices_envs({environment}, [{items}])")
    else:
        source.add(rule.id, source.tree.span(assign), node,
                   f"{{acc}}.set_visible_devices_envs({environment}, str({{value}}).split(\",\"))",
                   {"value": source.tree.span(assign.value)})


def tensor_type(source: Source, node: cst.BaseExpression, name: str, use: Use) -> None:
    """torch.cuda.FloatTensor as a value: its name in a string, or the class."""
    span = source.tree.span(node)
    dtype = DTYPES.get(name)
    call = use.call if use.node is node and use.position == 0 and len(use.call.args) == 1 else None
    function = source.names.qualified(call.func) if call is not None else ""
    if dtype and call is not None and isinstance(call.func, cst.Attribute) and call.func.attr.value == "type":
        whole = (source.tree.span(call.func.attr)[0], source.tree.span(call)[1])
        source.add("tensor-type-string",
                   whole,
                   node,
                   f"to({{type}}, torch.{dtype})",
                   severity=EQUIVALENT,
                   message="`.to(device, dtype)` does the same.")
    elif dtype and function == "torch.set_default_tensor_type":
        whole = source.tree.span(call)
        text = "torch.set_default_device({type})"
        if name != "Float":
            text = f"(torch.set_default_dtype(torch.{dtype}), {text})"
        source.add("tensor-type-string",
                   whole,
                   node,
                   text,
                   severity=EQUIVALENT,
                   message="torch.set_default_device() and torch.set_default_dtype() replace set_default_tensor_type(). They do "
                   "not affect torch.Tensor(...), which other files and libraries may call: move such tensors and modules with "
                   "`.to(device)`.")
        source.done.add(id(call.func))
        source.default_type = True
    else:
        source.add("tensor-type-string", span, node, severity=REVIEW)
