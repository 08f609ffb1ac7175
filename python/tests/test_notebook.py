"""The notebook's code runs, and says what it says there."""
import ast
import io
import json
import re
from contextlib import redirect_stdout

import pytest
from conftest import ROOT

NOTEBOOK = ROOT / "python" / "examples" / "first-steps.ipynb"


def run(source, names):
    """What a cell prints, and what its last line is."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(ast.Module(body, []), str(NOTEBOOK), "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)
    return printed.getvalue(), None if value is None else repr(value)


def shown(cell):
    """What the notebook has of both."""
    printed = "".join("".join(one["text"]) for one in cell["outputs"] if one["output_type"] == "stream")
    values = ["".join(one["data"]["text/plain"]) for one in cell["outputs"] if one["output_type"] == "execute_result"]
    return printed, values[0] if values else None


NUMBER = re.compile(r"-?\d+\.?\d*")


def alike(found, told):
    """Whether the words are the same and the numbers nearly: other processors add up in another order."""
    texts = [" ".join(NUMBER.sub("#", str(one)).split()) for one in (found, told)]
    numbers = [list(map(float, NUMBER.findall(str(one)))) for one in (found, told)]
    return texts[0] == texts[1] and numbers[0] == pytest.approx(numbers[1], rel=0.2, abs=0.05)


def test_the_notebook_runs_and_says_the_same(monkeypatch):
    monkeypatch.chdir(NOTEBOOK.parent)
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    names, differing = {}, []
    for number, cell in enumerate(cells, start=1):
        assert cell["execution_count"] == number
        found, told = run("".join(cell["source"]), names), shown(cell)
        if not all(map(alike, found, told)):
            differing.append((number, found, told))
    assert len(cells) > 3 and not differing, differing


def test_what_differs_is_seen():
    assert alike("sd [0.126 0.131]", "sd  [0.124 0.131]")
    assert not alike("sd [0.126 0.131]", "sd [0.126 0.531]") and not alike("accept", "abstain") and not alike(None, "1")
    assert run("x = 1\nprint(x)\nx + 1", {}) == ("1\n", "2")
    with pytest.raises(ZeroDivisionError):
        run("1 / 0", {})
