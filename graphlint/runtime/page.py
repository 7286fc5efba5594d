"""The trace as one offline HTML page: the verdict, a strip of operations per stream, the source with findings and counts.

Everything is inside the page: no request leaves it. The strip is drawn on a canvas, so that 20,000 operations scroll
without lag; it is drawn again only when it is moved or the window changes.
"""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

from graphlint.runtime.text import details

MAX_OPERATIONS = 20_000

_STYLE = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1c1e21;--dim:#666d75;--line:#d9dde2;--card:#f6f7f9;--bad:#b3261e;--ok:#1b7a3d;
--warn:#8a6100;--hit:#fde7e5;--op:#5b7fb8;--copy:#4f9d8f;--rng:#9a6fb0;--sync:#d0342c;--kbd:#eef0f3}
@media(prefers-color-scheme:dark){:root{--bg:#16181b;--fg:#e4e6e9;--dim:#9aa2ab;--line:#33383e;--card:#1e2125;--bad:#ff8a80;
--ok:#79d19a;--warn:#e0b64d;--hit:#3a211f;--op:#7da2dd;--copy:#6cc3b3;--rng:#c09ad6;--sync:#ff6b61;--kbd:#2a2e33}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif}
main{max-width:1100px;margin:0 auto;padding:24px 20px 60px}h1{font-size:22px;margin:0 0 4px}h2{font-size:16px;margin:32px 0 8px}
.dim{color:var(--dim)}.bad{color:var(--bad)}.ok{color:var(--ok)}.warn{color:var(--warn)}
.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px 16px;margin:10px 0}
code,pre,.src{font:13px/1.55 ui-monospace,Menlo,Consolas,monospace}a{color:inherit}
.tag{display:inline-block;border:1px solid currentColor;border-radius:10px;padding:0 8px;font-size:12px;margin-right:8px}
canvas{display:block;width:100%;border:1px solid var(--line);border-radius:8px;cursor:crosshair}
.src{overflow-x:auto;border:1px solid var(--line);border-radius:8px;padding:8px 0;background:var(--card)}
.row{display:grid;grid-template-columns:56px 56px 1fr;white-space:pre;padding-right:12px}
.row>span{color:var(--dim);text-align:right;padding-right:12px;user-select:none}.row.hit{background:var(--hit)}
.row:target{outline:2px solid var(--op)}.note{padding:2px 12px 6px 124px;white-space:normal;background:var(--hit)}
#tip{min-height:1.6em}.legend i{display:inline-block;width:10px;height:10px;border-radius:2px;margin:0 5px 0 14px}
"""

_SCRIPT = """
const D=JSON.parse(document.getElementById('data').textContent),c=document.getElementById('strip');
if(c){const x=c.getContext('2d'),lanes=[...new Set(D.ops.map(o=>o[0]))].sort((a,b)=>a-b),H=26,P=64;
let w=0,from=0,to=D.ops.length;const css=n=>getComputedStyle(document.documentElement).getPropertyValue(n).trim();
const hue=o=>o[4]?'--sync':/rand|bernoulli|normal_|dropout/.test(o[1])?'--rng':/copy|fill|zero/.test(o[1])?'--copy':'--op';
function draw(){const r=devicePixelRatio||1;w=c.clientWidth;const h=lanes.length*(H+8)+12;c.style.height=h+'px';
c.width=w*r;c.height=h*r;x.setTransform(r,0,0,r,0,0);x.clearRect(0,0,w,h);x.font='12px system-ui';
const col={};for(const n of['--op','--copy','--rng','--sync','--dim'])col[n]=css(n);
lanes.forEach((l,i)=>{x.fillStyle=col['--dim'];x.fillText('stream '+l,6,i*(H+8)+24)});
const k=(w-P-8)/Math.max(to-from,1);for(let i=Math.floor(from);i<Math.min(to,D.ops.length);i++){const o=D.ops[i],
y=lanes.indexOf(o[0])*(H+8)+6;x.fillStyle=col[hue(o)];x.fillRect(P+(i-from)*k,y,Math.max(k-(k>3?1:0),.6),H);
if(o[4])x.fillRect(P+(i-from)*k-1,y-4,3,H+8)}}
const at=e=>Math.floor(from+(e.offsetX-P)/((w-P-8)/Math.max(to-from,1)));
c.onmousemove=e=>{const o=D.ops[at(e)];document.getElementById('tip').textContent=o?o[1]+(o[2]>=0?'  -  '+D.files[o[2]]+':'+o[3]:''):''};
c.onclick=e=>{const o=D.ops[at(e)];if(o&&o[2]>=0)location.hash='f'+o[2]+'-'+o[3]};
c.onwheel=e=>{e.preventDefault();const m=at(e),s=e.deltaY>0?1.25:.8,n=Math.max(20,Math.min(D.ops.length,(to-from)*s));
const q=(m-from)/(to-from||1);from=Math.max(0,Math.min(D.ops.length-n,m-q*n));to=from+n;requestAnimationFrame(draw)};
addEventListener('resize',draw);matchMedia('(prefers-color-scheme: dark)').addEventListener('change',draw);draw()}
"""

_WORDS = {
    "ok": "The captures agree with the code",
    "capture-error": "A capture fails",
    "wrong-result": "A replay gives wrong results",
    "stale-result": "A replay gives old results",
    "memory": "Memory is wasted",
    "crash": "The program died",
    "hang": "The program did not end",
}


def page(traced: Any, data: dict[str, Any]) -> str:
    """The page. `data` is the JSON report of the same trace."""
    files = list(dict.fromkeys([*traced.files, *(r["path"] for r in traced.first.regions if r["path"])]))
    for finding in traced.findings:
        if finding.at.path not in files:
            files.append(finding.at.path)
    strip = traced.first.strip[:MAX_OPERATIONS]
    ops = [
        [o["stream"], o["name"], files.index(o["path"]) if o["path"] in files else -1, o["line"], o["sync"]]
        for o in strip
    ]
    names = [Path(f).name for f in files]
    trace = data["trace"]
    good = trace["outcome"] == "ok"
    title = _WORDS.get(trace["outcome"], trace["outcome"]) if data["regions"] or not good else "No capture was made"
    parts = [
        f"<h1 class={'ok' if good else 'bad'}>{html.escape(title)}</h1>",
        f"<div class=dim>{html.escape(trace['backend'])}, torch {html.escape(trace['torch'])}, {html.escape(trace['device'])}</div>",
    ]
    if trace["detail"] and not good:
        parts.append(f"<div class=card>{html.escape(trace['detail'])}</div>")
    parts.append("<h2>Captures</h2>")
    for region in data["regions"]:
        where = f"{html.escape(region['path'])}:{region['line']}"
        if region["captured"]:
            text = f"{region['calls']} calls, {region['replays']} replays, pool {region['pool_bytes'] / 2**20:.1f} MiB"
            more = "".join(f"<br><span class=dim>{html.escape(line)}</span>" for line in details(region))
            parts.append(f"<div class=card><span class='tag ok'>captured</span><code>{where}</code> {text}{more}</div>")
        else:
            error = region["error"] or {"text": "", "path": "", "line": 0}
            cause = f"{html.escape(error['text'])}<br><code>{html.escape(error['path'])}:{error['line']}</code>"
            parts.append(
                f"<div class=card><span class='tag bad'>not captured</span><code>{where}</code><br>{cause}</div>"
            )
    if not data["regions"]:
        parts.append("<div class=card>No capture was made.</div>")
    if ops:
        parts.append(
            "<h2>Captured operations</h2><canvas id=strip aria-label='operations per stream'></canvas>"
            "<div id=tip class=dim></div><div class='legend dim'><i style='background:var(--op)'></i>kernel"
            "<i style='background:var(--copy)'></i>copy or fill<i style='background:var(--rng)'></i>random"
            "<i style='background:var(--sync)'></i>refused or synchronising - scroll to zoom, click for the line</div>"
        )
    parts.append("<h2>Findings</h2>")
    kinds = {"confirmed": "bad", "refuted": "ok", "not-reached": "dim"}
    for finding in traced.findings:
        place = f"f{files.index(finding.at.path)}-{finding.at.line}"
        verdict = finding.verdict or "not-reached"
        parts.append(
            f"<div class=card><span class='tag {kinds[verdict]}'>{verdict}</span><b>{finding.code} {finding.rule}</b> "
            f"<a href='#{place}'><code>{html.escape(Path(finding.at.path).name)}:{finding.at.line}</code></a><br>"
            f"{html.escape(finding.message)}"
            + (
                f"<br><span class=dim>{html.escape(finding.evidence)}</span>"
                if finding.evidence != finding.message
                else ""
            )
            + "</div>"
        )
    if not traced.findings:
        parts.append("<div class=card>None.</div>")
    for number, path in enumerate(files):
        parts.append(_source(traced, number, path))
    embedded = json.dumps({"ops": ops, "files": names}).replace("</", "<\\/")
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width,initial-scale=1'>"
        "<link rel=icon href='data:,'><title>graphlint trace</title><style>"
        + _STYLE
        + "</style><main>"
        + "".join(parts)
        + f"</main><script type=application/json id=data>{embedded}</script><script>{_SCRIPT}</script></html>\n"
    )


def _source(traced: Any, number: int, path: str) -> str:
    """A file's text with its findings below their lines, and how many captured calls each line made."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return ""
    counts = traced.first.counts.get(path, {})
    found: dict[int, list[Any]] = {}
    for finding in traced.findings:
        if finding.at.path == path:
            found.setdefault(finding.at.line, []).append(finding)
    rows = []
    for at, text in enumerate(lines, 1):
        hit = " hit" if any(f.verdict == "confirmed" for f in found.get(at, ())) else ""
        calls = counts.get(str(at), "")
        rows.append(
            f"<div class='row{hit}' id=f{number}-{at}><span>{calls}</span><span>{at}</span>{html.escape(text)}</div>"
        )
        for finding in found.get(at, ()):
            rows.append(
                f"<div class=note><b>{finding.code}</b> {finding.verdict}: {html.escape(finding.evidence or finding.message)}</div>"
            )
    return f"<h2>{html.escape(Path(path).name)}</h2><div class=src>{''.join(rows)}</div>"
