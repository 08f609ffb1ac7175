"""docs/reference/python.md: signatures and docstrings of the Python package, read from its source."""
import ast
import re

from .records import ROOT

PACKAGE = ROOT / "python/package/fidgp"
HEAD = """# Python reference

Signatures and docstrings of the package, read from its source; `scripts/readme` writes this page. [Python](../use/python.md) explains the package with examples.
"""
# title, file, names (none: all public ones)
PARTS = [
    ("fidgp", "_model.py", ["load", "Model"]),
    ("Results", "_said.py", ["ClassPredictions", "NumberPredictions", "PixelPredictions"]),
    ("Training", "_train.py", ["train", "wrap", "Wrapped"]),
    ("scikit-learn", "sklearn.py", ["FidgpRegressor", "FidgpClassifier"]),
    ("fidgp.metrics", "metrics.py", None),
    ("fidgp.conformal", "conformal.py", None),
]


def is_public(node):
    return isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_")


def signature(node, name=None, drop_self=False):
    arguments = ast.unparse(node.args)
    if drop_self:
        arguments = re.sub(r"^(self|cls)(, )?", "", arguments)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns and node.name != "__init__" else ""
    return f"{name or node.name}({arguments}){returns}"


def prose(node):
    """A docstring; its examples become code blocks."""
    lines, examples = [], []
    for line in (ast.get_docstring(node) or "").splitlines():
        if line.startswith(">>>") or examples and line.strip():
            examples.append(line)
            continue
        if examples:
            lines, examples = [*lines, "```pycon", *examples, "```", line], []
        else:
            lines.append(line)
    return [*lines, *(["```pycon", *examples, "```"] if examples else [])]


def is_property(node):
    return any(isinstance(one, ast.Name) and one.id == "property" for one in node.decorator_list)


def described(node):
    """One function, or one class with what it has."""
    if isinstance(node, ast.FunctionDef):
        return ["```python", signature(node), "```", "", *prose(node), ""]
    members = [one for one in node.body if isinstance(one, ast.FunctionDef)]
    made = next((one for one in members if one.name == "__init__"), None)
    engine = made is None or "engine" in {argument.arg for argument in made.args.args}
    lines = ["```python", f"class {node.name}" if engine else f"class {signature(made, node.name, True)}", "```", "", *prose(node), ""]
    fields = [one for one in node.body if isinstance(one, ast.AnnAssign) and not one.target.id.startswith("_")]
    shown = [f"- `{one.target.id}`: `{ast.unparse(one.annotation)}`" for one in fields]
    shown += [f"- `{one.name}`: {' '.join(prose(one))}" for one in members if is_property(one) and is_public(one)]
    for method in members:
        if is_public(method) and not is_property(method):
            text = "\n".join(f"  {line}".rstrip() for line in prose(method))
            shown.append(f"- `{signature(method, drop_self=True)}`\n\n{text}\n")
    return [*lines, *shown, *([""] if shown else [])]


def python_page():
    lines = [HEAD]
    for title, file, names in PARTS:
        tree = ast.parse((PACKAGE / file).read_text())
        lines += [f"## {title}", ""]
        if names is None:
            lines += [*prose(tree), ""]
        found = {node.name: node for node in tree.body if is_public(node)}
        for name in names or found:
            lines += [f"### {name}", "", *described(found[name])]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"
