"""Creates the C++ reference: one page for each public header, from Doxygen's XML."""
import pathlib
import re
import subprocess
import xml.etree.ElementTree as ElementTree

SETTINGS = """
PROJECT_NAME = AnyAccel
INPUT = include/anyaccel
FILE_PATTERNS = *.h
RECURSIVE = YES
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
AUTOLINK_SUPPORT = NO
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = ANYACCEL_API= ANYACCEL_LOCAL=
HAVE_DOT = NO
CLASS_GRAPH = NO
INCLUDE_GRAPH = NO
INCLUDED_BY_GRAPH = NO
EXTRACT_ALL = YES
WARN_IF_UNDOCUMENTED = NO
WARN_AS_ERROR = FAIL_ON_WARNINGS
QUIET = YES
"""
PARTS = {"include/anyaccel": "For callers", "include/anyaccel/ops": "Ops", "include/anyaccel/llm": "Language models",
         "include/anyaccel/conformance": "Conformance kit", "include/anyaccel/sdk": "For authors of backends"}
TITLES = {"enum": "enum", "class": "class", "struct": "struct", "function": "", "variable": "", "typedef": "", "define": "macro"}


def run_doxygen(doxygen, root, out):
    settings = SETTINGS + f'OUTPUT_DIRECTORY = "{out}"\n'
    subprocess.run([doxygen, "-"], input=settings, text=True, cwd=root, check=True)
    return out / "xml"


def escape(text):
    return re.sub(r"([\\`*_\[\]<>])", r"\\\1", text)


def plain(node):
    """Return the text of a node and its descendants, as in the source."""
    return "" if node is None else re.sub(r"\s+", " ", "".join(node.itertext())).strip()


def plain_type(node):
    """Return a type without the spaces that Doxygen inserts."""
    return re.sub(r" ?> ?(?=[>,*&)]|$)", ">", plain(node).replace("< ", "<").replace(" >", ">").replace(" &", "&").replace(" *", "*"))


def inline(node):
    """Return the Markdown of a paragraph."""
    out = escape(node.text or "")
    for child in node:
        if child.tag == "computeroutput":
            out += f"`{plain(child)}`"
        elif child.tag in ("emphasis", "bold"):
            out += f"*{inline(child)}*"
        elif child.tag == "ulink":
            out += f"[{inline(child)}]({child.get('url')})"
        elif child.tag == "linebreak":
            out += "  \n"
        elif child.tag in ("programlisting", "verbatim", "itemizedlist", "orderedlist", "parameterlist", "simplesect"):
            out += "\n\n" + block(child) + "\n\n"
        elif child.tag == "sp":
            out += " "
        else:
            out += inline(child)
        out += escape(child.tail or "")
    return out


def block(node):
    if node.tag in ("programlisting", "verbatim"):
        if node.tag == "verbatim":
            text = node.text or ""
        else:
            text = "\n".join("".join(" " if part == " " else part for part in line.itertext()) for line in node.iter("codeline"))
        return f"```cpp\n{text.strip(chr(10))}\n```"
    if node.tag in ("itemizedlist", "orderedlist"):
        mark = "-" if node.tag == "itemizedlist" else "1."
        return "\n".join(f"{mark} " + description(item).replace("\n", "\n    ") for item in node)
    if node.tag == "parameterlist":
        return "\n".join(f"- `{plain(item.find('parameternamelist'))}`: {description(item.find('parameterdescription'))}" for item in node)
    if node.tag == "simplesect":
        return f"{node.get('kind').capitalize()}: {description(node)}"
    return re.sub(r"[ \t]*\n[ \t]*(?=\S)(?![-`]|1\.)", "\n", inline(node)).strip()


def description(*nodes):
    return "\n\n".join(block(child) for node in nodes if node is not None for child in node if plain(child))


def about(node):
    text = description(node.find("briefdescription"), node.find("detaileddescription"))
    return re.sub(r"\s*(torch\.cuda: .*DeepSpeed: )", r"\n\n\1", text)  # a separate line in the header


class Entity:
    """A declaration with its position in a header."""

    def __init__(self, node, scope):
        self.node, self.scope = node, scope
        self.kind = node.get("kind")
        place = node.find("location")
        self.file, self.line = place.get("file"), int(place.get("line"))
        self.name = plain(node.find("name")) if node.tag == "memberdef" else plain(node.find("compoundname"))

    def signature(self):
        node = self.node
        template = ""
        if node.find("templateparamlist") is not None:
            parameters = [" ".join(filter(None, (plain(p.find("type")), plain(p.find("declname"))))) for p in node.find("templateparamlist")]
            template = f"template <{', '.join(parameters)}>\n"
        if self.kind == "define":
            parameters = [plain(p.find("defname")) for p in node.findall("param")]
            return f"#define {self.name}" + (f"({', '.join(parameters)})" if parameters else "")
        if self.kind in ("class", "struct"):
            bases = ", ".join(plain(b) for b in node.findall("basecompoundref") if b.get("prot") == "public")
            return f"{template}{self.kind} {self.name}" + (f" : {bases}" if bases else "")
        if self.kind == "typedef" and not plain(node.find("definition")).startswith("typedef"):
            return template + plain(node.find("definition")) + ";"
        words = [w for w, on in (("static", node.get("static") == "yes"), ("explicit", node.get("explicit") == "yes"),
                                 ("virtual", node.get("virt") in ("virtual", "pure-virtual"))) if on]
        kind = plain_type(node.find("type"))
        words += [kind] if kind else []
        arguments = re.sub(r" ([&*]+)(?=\w)", r"\1 ", plain(node.find("argsstring"))).replace(" &)", "&)").replace("< ", "<").replace(" >", ">")
        arguments = re.sub(r"(?<=\w)=(?=\w)", " = ", re.sub(r"=(delete|default|0)$", r" = \1", arguments))
        return f"{template}{' '.join(words + [self.name])}{arguments} {plain(node.find('initializer'))}".rstrip() + ";"

    def is_dull(self):
        """Return whether to omit the declaration: an undocumented destructor, or an undocumented
        defaulted or deleted function.
        """
        return not about(self.node) and (self.name.startswith("~") or bool(re.search(r"= ?(delete|default)", self.signature())))


def hidden(node):
    return node.get("prot") in ("private", "package") or node.get("kind") in ("friend",)


def read(xml):
    """Return all declarations by header, in the order of their lines. The members of a class are in
    `members`.
    """
    entities, members = {}, {}
    for path in sorted(xml.glob("*.xml")):
        for compound in ElementTree.parse(path).getroot().iter("compounddef"):
            kind, name = compound.get("kind"), plain(compound.find("compoundname"))
            if kind in ("class", "struct") and not hidden(compound):
                entity = Entity(compound, name)
                entities.setdefault(entity.file, []).append(entity)
            if kind not in ("class", "struct", "namespace", "file"):
                continue
            for node in compound.iter("memberdef"):
                if hidden(node) or "@" in plain(node.find("name")):
                    continue
                member = Entity(node, name)
                if kind in ("class", "struct"):
                    members.setdefault(name, []).append(member)
                elif kind == "namespace" or member.kind == "define":
                    entities.setdefault(member.file, []).append(member)
    unique = lambda found: sorted({(e.line, e.name, e.signature()): e for e in found}.values(), key=lambda e: e.line)
    return {file: unique(found) for file, found in entities.items()}, {name: unique(found) for name, found in members.items()}


def intro(header):
    """Return the comment at the beginning of a header."""
    lines = []
    for line in header.splitlines():
        match = re.match(r"// ?(.*)", line)
        if not match:
            break
        lines.append(match.group(1))
    return "\n".join(lines)


def enum_table(node):
    rows = [(plain(v.find("name")), about(v).replace("\n", " ").replace("|", "\\|")) for v in node.findall("enumvalue")]
    return "\n".join(["| value | meaning |", "| --- | --- |"] + [f"| `{name}` | {text} |" for name, text in rows])


def show(entity, level, members):
    name = entity.name.rpartition("::")[2] if entity.node.tag == "compounddef" else entity.name
    out = [f"{'#' * level} {(TITLES.get(entity.kind, '') + ' ').lstrip()}{escape(name)}", ""]
    if entity.kind == "enum":
        out += [about(entity.node), "", enum_table(entity.node), ""]
        return out
    out += ["```cpp", entity.signature(), "```", "", about(entity.node), ""]
    if entity.node.tag != "compounddef":
        return out
    fields = []
    for member in members.get(entity.name, []):
        if member.is_dull():
            continue
        if entity.kind == "struct" and member.kind == "variable":
            fields.append(member)
            continue
        out += show_fields(fields) + show(member, level + 1, members)
        fields = []
    return out + show_fields(fields)


def show_fields(fields):
    if not fields:
        return []
    rows = [f"| `{field.signature().rstrip(';').replace('|', chr(92) + '|')}` | {about(field.node).replace(chr(10), ' ')} |" for field in fields]
    return ["| field | meaning |", "| --- | --- |", *rows, ""]


def pages(root, xml):
    """Return {path relative to reference/cpp: page}."""
    entities, members = read(xml)
    out, index = {}, {}
    for path in sorted((root / "include/anyaccel").rglob("*.h")):
        header = path.relative_to(root).as_posix()
        name = header.removeprefix("include/")
        comment = intro(path.read_text())
        include = "" if header.endswith("_abi.h") else f"\n```cpp\n#include <{name}>\n```\n"
        page = [f"# {name}", "", escape(comment) if "`" not in comment else comment, include]
        for entity in entities.get(header, []):
            # A nested class has its own heading, after the outer class.
            page += show(entity, 2, members)
        target = name.removeprefix("anyaccel/").replace("/", "-").removesuffix(".h") + ".md"
        out[target] = re.sub(r"\n{3,}", "\n\n", "\n".join(page)).rstrip() + "\n"
        first = re.split(r"(?<=\.)\s", comment.replace("\n", " "))[0] if comment else ""
        index.setdefault(pathlib.PurePosixPath(header).parent.as_posix(), []).append(f"| [{name}]({target}) | {first} |")
    text = ["# C++ reference", "", "Generated by `make docs` from the headers in `include/anyaccel`.", ""]
    for part, title in PARTS.items():
        text += [f"## {title}", "", "| header | content |", "| --- | --- |", *index.pop(part, []), ""]
    if index:
        raise ValueError(f"tools/docs_site/cpp_reference.py: no title for the headers in {', '.join(index)}")
    out["index.md"] = "\n".join(text)
    return out
