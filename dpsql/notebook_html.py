"""HTML for notebooks: escaped text, a few elements, and one style that follows light and dark themes.

Every value goes through `text`, so data can never become markup. Own code: a template engine would be a dependency of
the core, for elements that are made from Python values in a few lines.
"""

from __future__ import annotations

from html import escape

STYLE = """
.dpsql{--dp-ink:var(--jp-content-font-color1,var(--vscode-editor-foreground,#1f2328));
--dp-dim:var(--jp-content-font-color2,var(--vscode-descriptionForeground,#59636e));
--dp-line:var(--jp-border-color2,var(--vscode-panel-border,#d1d9e0));
--dp-track:var(--jp-border-color2,#d9dee4);--dp-fill:#2f7de1;
--dp-warn:#9a6700;--dp-bad:#cf222e;
color:var(--dp-ink);font:13px/1.5 var(--jp-content-font-family,system-ui,sans-serif);margin:.3em 0 .6em}
@media (prefers-color-scheme:dark){.dpsql{
--dp-ink:var(--jp-content-font-color1,var(--vscode-editor-foreground,#e6edf3));
--dp-dim:var(--jp-content-font-color2,var(--vscode-descriptionForeground,#9aa4af));
--dp-line:var(--jp-border-color2,var(--vscode-panel-border,#3d444d));--dp-track:var(--jp-border-color2,#3d444d);
--dp-warn:#d29922;--dp-bad:#f85149}}
.dpsql.dpsql table{border-collapse:collapse;margin:0 0 .4em;border:0;color:inherit;font-variant-numeric:tabular-nums}
.dpsql.dpsql th,.dpsql.dpsql td{padding:.2em .7em;border:0;text-align:left;background:none;color:inherit;
vertical-align:baseline;white-space:nowrap;max-width:none}
.dpsql.dpsql thead th{font-weight:600;border-bottom:1px solid var(--dp-line)}
.dpsql.dpsql tbody tr{background:none}
.dpsql.dpsql tbody tr+tr td{border-top:1px solid color-mix(in srgb,var(--dp-line) 45%,transparent)}
.dpsql.dpsql .n{text-align:right}.dpsql.dpsql td.e{padding-left:0;color:var(--dp-dim)}
.dpsql.dpsql .rough{color:var(--dp-warn)}.dpsql.dpsql .noise{color:var(--dp-bad)}
.dpsql.dpsql .w{white-space:normal}
.dpsql.dpsql .dim{color:var(--dp-dim)}.dpsql.dpsql .null{color:var(--dp-dim);font-style:italic}
.dpsql.dpsql p{margin:.15em 0;max-width:60em}
.dpsql.dpsql details{margin:.15em 0}.dpsql.dpsql summary{cursor:pointer;color:var(--dp-dim)}
.dpsql.dpsql ul{margin:.1em 0;padding-left:1.3em}.dpsql.dpsql li{margin:.1em 0}
.dpsql.dpsql code{font:12px var(--jp-code-font-family,ui-monospace,monospace);background:none;color:inherit;padding:0}
.dpsql.dpsql .tree{list-style:none;padding-left:0}
.dpsql.dpsql .tree ul{list-style:none;border-left:1px solid var(--dp-line);
margin-left:.35em;padding-left:.9em}
.dpsql.dpsql .bar{display:inline-block;width:11em;height:.6em;border-radius:.3em;background:var(--dp-track);
overflow:hidden;vertical-align:middle;margin:0 .6em}
.dpsql.dpsql .bar i{display:block;height:100%;background:var(--dp-fill)}
""".replace("\n", "")


def text(value: object) -> str:
    """A value as it reads, never as markup; control characters show as a replacement sign."""
    return escape("".join(each if each.isprintable() or each == "\n" else "�" for each in str(value)))


def element(name: str, inside: str, kind: str = "", **attributes: str) -> str:
    """An element around markup that is made already."""
    given = {"class": kind, **attributes}
    listed = "".join(f' {key}="{escape(value)}"' for key, value in given.items() if value)
    return f"<{name}{listed}>{inside}</{name}>"


def listed(items: list[str], kind: str = "") -> str:
    """A list of items that are made already; nothing for none."""
    return element("ul", "".join(element("li", item) for item in items), kind) if items else ""


def bar(share: float, title: str) -> str:
    """How much of a whole is used."""
    width = min(100.0, max(0.0, 100 * share))
    return element("span", element("i", "", style=f"width:{width:.1f}%"), "bar", title=title, role="img")


def page(inside: str) -> str:
    """What a notebook shows: the style with every output, since a saved notebook may show any of them alone."""
    return element("div", f"<style>{STYLE}</style>{inside}", "dpsql")
