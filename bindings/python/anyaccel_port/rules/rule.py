"""The class of rules.

A rule describes one construct that works only with CUDA, and its replacement for each target of
`--to`. Rules contain no code that depends on the language's syntax tree: python/, cpp/ and the
other finders look rules up by what they matched.
"""

from __future__ import annotations

import dataclasses

ANYACCEL = "anyaccel"
TORCH = "torch.accelerator"
DEEPSPEED = "deepspeed"
TARGETS = (ANYACCEL, TORCH, DEEPSPEED)


@dataclasses.dataclass(frozen=True)
class Rule:
    """One rule.

    id: a name such as `cuda-synchronize`, which users write in suppressions and baselines.
    severity: `equivalent` (the replacement means the same on every accelerator), `review` (the
        replacement needs a person's decision) or `none` (there is no direct equivalent; `why` says why, or what to use instead).
    names: qualified names that the rule matches: `torch.cuda.synchronize`. Other finders use them
        with a prefix: `method:cuda`, `attribute:is_cuda`, `string:nccl`, `c++:c10::cuda::CUDAGuard`,
        `cmake:enable_language(CUDA)`, `shell:nvidia-smi`, `env:CUDA_VISIBLE_DEVICES`,
        `package:pynvml`, `config:device`.
    to: the replacement for each target; a target that is missing has none, and the finding's severity
        for that target is then `none` (`review` if no target has a replacement). Targets in `review_for` need review. The placeholders
        are
            {acc}       an expression for the accelerator: `get_accelerator()` or `torch.accelerator`
            {args}      the source of all arguments of the call
            {0}, {1}    the source of one argument, by position or by name: {device}
            {self}      the source of the object whose method or attribute is matched
            {type}      an expression for the device type, a string such as "cuda" on CUDA
        A replacement without `{args}`, `{0}`, ... and without parentheses after the name replaces
        only the name and keeps the call's arguments.
    why: one or two sentences for the user: the difference, or the reason why there is no equivalent.
    before, after: an example for the documentation and the tests; `after` is for anyaccel.
    harmless: the code can stay as it is, so findings do not fail --check.
    runtime: how anyaccel.as_cuda redirects it: the accelerator's method that takes the same
        arguments, the name of a function in anyaccel.as_cuda, "same" if torch's own member works because
        what it uses is redirected, or "" if it cannot be redirected.
    """

    id: str
    title: str
    severity: str
    names: tuple[str, ...]
    to: dict[str, str] = dataclasses.field(default_factory=dict)
    why: str = ""
    before: str = ""
    after: str = ""
    harmless: bool = False
    runtime: str = ""
    review_for: tuple[str, ...] = ()

    def severity_for(self, target: str) -> str:
        """The severity of a finding if the program is ported to `target`."""
        if self.severity == "none":
            return "none"
        if target not in self.to:
            # A rule for review without any replacement says in `why` what a person has to decide.
            return "review" if self.severity == "review" and not self.to else "none"
        return "review" if target in self.review_for else self.severity
