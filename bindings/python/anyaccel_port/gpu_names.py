"""Names of NVIDIA's device models and architectures."""

from __future__ import annotations

import re

_MODEL = (r"(?:gh|gb)200|[hb][1-3]00|h20|[ah]800|a(?:10g?|16|30|40|100)|a[2-6]000|l40s?|v100s?|p100|p40|k[48]0|m[46]0|"
          r"(?:rtx|gtx)[ _-]?(?:a?\d{3,4})|titan[ _-](?:xp?|v|rtx)|quadro[ _-][\w ]+|jetson[ _-][\w ]+|dgx[ _-]\w+")
_SHORT = r"[tlp]4|a2|a10"
_ARCHITECTURE = r"kepler|maxwell|pascal|volta|turing|ampere|ada|lovelace|hopper|blackwell"
_MAKER = r"(?:(?:nvidia|tesla|geforce|grace)[ _-]*)"
_DETAIL = r"(?:[ _/-]?(?:sxm\d?|pcie|pci|nvl|hbm\w*|ti|super|laptop|mobile|gpu|max-?q|d|x\d+|\d+ ?gi?b?))*"
# A whole string that is the name of a device: "A100", "NVIDIA H100 80GB HBM3", "nvidia-tesla-v100".
NAME = re.compile(rf"(?i)(?:{_MAKER}*(?:{_MODEL}|{_SHORT})|{_MAKER}+(?:{_ARCHITECTURE})|(?:tesla|geforce)[ _-][\w -]+){_DETAIL}")
_UNCLEAR = re.compile(rf"(?i){_SHORT}|{_ARCHITECTURE}")
# A device in a request to a job scheduler: "gpu:a100:4", "volta32gb", "nvidia-tesla-v100".
REQUEST = re.compile(rf"(?i)(?<![a-z0-9])(?:{_MAKER}*(?:{_MODEL}|{_SHORT})|{_ARCHITECTURE})(?=\d+gb|[^a-z0-9]|$)")
# Keys and options of schedulers and clouds that select a device model.
KEY = re.compile(r"(?i)(?:.*[._/-])?(?:constraint|gres|gpu[_-]?(?:type|model|name)|(?:gke-)?accelerators?(?:[_-]?types?)?)")


def is_name(text: str) -> bool:
    """Whether a string is the name of a device."""
    return len(text) < 60 and NAME.fullmatch(text) is not None


def is_clear(text: str) -> bool:
    """Whether a string is unambiguously the name of a device, unlike "L4" and "ada"."""
    return is_name(text) and not _UNCLEAR.fullmatch(text)
