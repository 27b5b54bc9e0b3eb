"""Finds CUDA dependencies in CMake files, at most one per command."""

from __future__ import annotations

import re

import tree_sitter
import tree_sitter_cmake

from . import matching
from .findings import Finding, SourceError
from .rules import BY_ID

_LANGUAGE = tree_sitter.Language(tree_sitter_cmake.language())
_COMMANDS = frozenset(("normal_command", "if_command", "elseif_command", "foreach_command", "while_command"))
_PACKAGE = re.compile(r"(?i)(?:CUDA\w*|CUDNN|NCCL|cuBLAS\w*|TensorRT|nvtx\w*|NVSHMEM|CUB|Thrust|cutlass|cuCollections|CUSPARSELT)")
_VARIABLE = re.compile(
    r"\b(?:CMAKE_CUDA_\w+|CUDA_\w+|TORCH_CUDA_\w+|CUDAToolkit_\w+|CUDNN_\w+|NCCL_\w+|\w+_CUDA_\w+|"
    r"(?:USE|WITH|ENABLE|BUILD)_CUDA\w*|\w+_(?:USE|WITH|ENABLE|BUILD)_CUDA)\b"
)
_TARGET = re.compile(
    r"\bCUDA::\w+|\b(?:cudart|cublas|cublasLt|cudnn|cufft|curand|cusparse|cusolver|"
    r"nccl|nvrtc|nvToolsExt|nvidia-ml|cuda)(?:_static)?\b"
)
_TORCH_TARGET = re.compile(r"(?<![\w-])(?:torch_cuda(?:_cpp|_cu|_linalg)?|c10_cuda)(?![\w.-])"
)
_LANGUAGE_EXPRESSION = re.compile(r"\$<\$?<?(?:COMPILE_LANGUAGE|COMPILE_LANG_AND_ID|LINK_LANGUAGE):CUDA")
_OPTION = re.compile(r"\b\w*CUDA\w*\b")


def find(text: str, file: str, target: str) -> list[Finding]:
    """Return the findings in a CMake file. Raises SourceError if it cannot be parsed."""
    source = matching.Source(text, file, target)
    offsets = matching.Offsets(text)
    root = tree_sitter.Parser(_LANGUAGE).parse(text.encode("utf-8", "surrogatepass")).root_node
    if root.has_error and not file.endswith(".in"):
        _check(root)
    for node in _commands(root):
        start, end = offsets.to_character(node.start_byte), offsets.to_character(node.end_byte)
        code = _code(text[start:end])
        if rule := _rule(code):
            end = start + len(code.rstrip())
            source.add(BY_ID[rule], start, end)
    return source.result()


def fix(text: str, findings: list[Finding], target: str) -> str:
    return matching.apply(text, [edit for finding in findings for edit in finding.edits])


def _commands(root):
    """The commands, in any order."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type in _COMMANDS:
            yield node
        elif node.named_child_count:
            stack.extend(node.named_children)


def _check(root):
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "ERROR" or node.is_missing:
            raise SourceError("not a CMake file: a command cannot be parsed", node.start_point[0] + 1)
        stack.extend(child for child in node.children if child.has_error)


def _code(text: str) -> str:
    """A command without comments."""
    return re.sub(r"\"(?:[^\"\\]|\\.)*\"|#\[(=*)\[.*?\]\1\]|#[^\n]*",
                  lambda m: m[0] if m[0][0] == '"' else " " * len(m[0]),
                  text,
                  flags=re.S)


def _rule(code: str) -> str | None:
    match = re.match(r"\s*(\w+)\s*\((.*)\)\s*$", code, re.S)
    if match is None:
        return None
    name, arguments = match[1].lower(), match[2]
    words = re.findall(r"\"(?:[^\"\\]|\\.)*\"|[^\s\"]+", arguments)
    if name in ("message", "else", "endif", "endforeach", "endwhile", "endfunction", "endmacro", "return"):
        return None
    if name in ("enable_language", "check_language") and "CUDA" in words or name == "project" and "CUDA" in words[1:]:
        return "cmake-language"
    if name in ("find_package", "find_dependency") and words and _PACKAGE.fullmatch(words[0]):
        return "cmake-package"
    if name == "include" and words and re.fullmatch(r"FindCUDA\w*|CUDA", words[0]):
        return "cmake-package"
    if name.startswith("cuda_"):
        return "cmake-target"
    if re.search(r"[\w}/*]\.cuh?\b", arguments):
        return "cmake-source"
    if name in ("target_link_libraries", "link_libraries") and _TARGET.search(arguments) or _TORCH_TARGET.search(arguments):
        return "cmake-target"
    if name in ("find_library", "find_path", "find_file", "find_program") and re.search(r"(?i)cud|nvcc|nccl|cublas", arguments):
        return "cmake-package"
    if _LANGUAGE_EXPRESSION.search(arguments) or _VARIABLE.search(arguments) or re.search(r"\bCUDA_\w+|\bCUDA::", arguments):
        return "cmake-variable"
    if name == "option" and words and _OPTION.fullmatch(words[0]):
        return "cmake-variable"
    if name in ("add_definitions", "target_compile_definitions", "add_compile_definitions") and re.search(r"CUDA", arguments):
        return "cmake-variable"
    return None
