"""The notebooks run from top to bottom, are saved as they run, and look right in a real browser, light and dark."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"
NAMES = ("first_steps", "study", "steward")
REFUSALS = {
    "first_steps": ["PrivateRowsError", "UnknownColumn"],
    "study": [],
    "steward": ["UnsupportedQuery", "PolicyError"],
}


@pytest.fixture(scope="module")
def maker() -> Iterator[Any]:
    """The script that makes them."""
    spec = importlib.util.spec_from_file_location("notebook_maker", FOLDER / "make.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["notebook_maker"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["notebook_maker"]


def saved(name: str) -> Any:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def outputs(made: Any) -> list[Any]:
    return [output for cell in made["cells"] for output in cell.get("outputs", ())]


def shown(made: Any) -> str:
    """All that is shown as HTML."""
    return "".join(output.get("data", {}).get("text/html", "") for output in outputs(made))


def check(name: str, made: Any) -> None:
    """Answers with bars and costs, a plot, the budget, and just those refusals that are meant."""
    page = shown(made)
    assert "±" in page and "of your budget" in page
    assert 'class="bar"' in page and "left " in page
    assert any("image/png" in output.get("data", {}) for output in outputs(made))
    refused = [output for output in outputs(made) if output["output_type"] == "error"]
    assert [output["ename"] for output in refused] == REFUSALS[name]
    for output in refused:
        assert "hint" in "\n".join(output["traceback"]) and len(output["traceback"]) < 8
    assert not any("Traceback" in str(output) for output in outputs(made))


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_from_top_to_bottom(maker: Any, name: str, tmp_path: Path) -> None:
    check(name, maker.executed(maker.notebook(name), tmp_path))


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_saved_as_it_runs(maker: Any, name: str) -> None:
    kept, made = saved(name), maker.notebook(name)
    assert [(c["cell_type"], c["source"]) for c in kept["cells"]] == [
        (c["cell_type"], c["source"]) for c in made["cells"]
    ]
    check(name, kept)
    nbformat.validate(kept)
    text = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    assert len(text) < 250_000 and "site-packages" not in text and not re.search(r"/(home|root|work|Users)/", text)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_there_is_a_small_picture(name: str, theme: str) -> None:
    assert 10_000 < (FOLDER / "pictures" / f"{name}_{theme}.png").stat().st_size < 300_000


# in a browser -----------------------------------------------------------------------------------------------------------

needs_chromium = pytest.mark.skipif(
    not (shutil.which("chromium") or shutil.which("chromium-browser")), reason="there is no chromium to open pages with"
)
LOOK = """<script>
const first = (css, what) => { const it = document.querySelector(css); return it ? getComputedStyle(it)[what] : "none"; };
document.body.dataset.ink = first(".dpsql td", "color");
document.body.dataset.dim = first(".dpsql td.e", "color");
document.body.dataset.paper = first("body", "backgroundColor");
document.body.dataset.left = first(".dpsql tbody td", "textAlign");
document.body.dataset.right = first(".dpsql tbody td.n", "textAlign");
const bar = document.querySelector(".dpsql .bar").getBoundingClientRect();
document.body.dataset.bar = bar.width > 50 && bar.height > 3 ? "seen" : "flat";
</script>"""


def brightness(color: str) -> float:
    """From 0 to 1, of `rgb(…)` or `rgba(…)` on its way through the browser."""
    red, green, blue = map(float, re.findall(r"[\d.]+", color)[:3])
    return (0.299 * red + 0.587 * green + 0.114 * blue) / 255


def opened(maker: Any, text: str, theme: str, folder: Path) -> str:
    pytest.importorskip("nbconvert")
    page = folder / "page.html"
    page.write_text(text.replace("</body>", f"{LOOK}</body>") if "</body>" in text else text + LOOK, encoding="utf-8")
    return maker.chromium(page, theme, "--dump-dom", "--virtual-time-budget=5000").decode()


def told(dom: str, name: str) -> str:
    return re.search(rf'data-{name}="([^"]*)"', dom).group(1)  # type: ignore[union-attr]


@needs_chromium
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_the_page_reads_well_in_a_browser(maker: Any, name: str, theme: str, tmp_path: Path) -> None:
    kept = saved(name)
    pytest.importorskip("nbconvert")
    dom = opened(maker, maker.page(kept, theme), theme, tmp_path)
    body = dom.partition("<body")[2]
    for value in re.findall(r'<td class="n">([^<]+)</td><td class="e">([^<]+)</td>', shown(kept)):
        assert value[0] in body and value[1] in body
    assert "±" in body and "of your budget" in body and "left " in body
    ink, paper, dim = (brightness(told(dom, each)) for each in ("ink", "paper", "dim"))
    assert ink - paper > 0.6 if theme == "dark" else paper - ink > 0.6
    assert abs(dim - paper) > 0.3
    assert told(dom, "bar") == "seen" and told(dom, "right") == "right" and told(dom, "left") == "left"


@needs_chromium
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_outside_jupyter_the_system_decides(maker: Any, theme: str, tmp_path: Path) -> None:
    import pandas as pd

    import dpsql.pandas  # noqa: F401 (frames have `dp` from then on)

    frame = pd.DataFrame({"x": [1, 2, 3]}).dp.protect(unit="row", bounds={"x": (0, 5)}, epsilon=3)
    dom = opened(maker, f"<!doctype html><html><body>{frame.x.sum()._repr_html_()}</body></html>", theme, tmp_path)
    assert (brightness(told(dom, "ink")) > 0.6) == (theme == "dark") and told(dom, "bar") == "seen"
