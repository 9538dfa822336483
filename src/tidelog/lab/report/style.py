"""The look of the page: light and dark screens, and paper.

Owns the CSS. A verdict is always a word and a pattern besides a colour.
"""

STYLE = """
:root{color-scheme:light dark;--ground:#fff;--card:#f7f8fa;--ink:#1d232b;--quiet:#5d6670;--faint:#d9dde2;
--kept:#1a7f4b;--kept-ground:#e4f4ea;--broken:#b3261e;--broken-ground:#fde7e5;--allowed:#8a5a00;
--allowed-ground:#fdf1d8;--none-ground:#eef0f3;--writes:#1f6fc4;--reads:#b4560b;--latency:#6a4fb3;
--fault:#c62828;--l0:#c9dcf2;--l1:#cfe8d5;--l2:#f4dcc0;--l3:#e3d5f0;--l4:#d6e4e6}
@media(prefers-color-scheme:dark){:root{--ground:#14181d;--card:#1c2128;--ink:#dbe1e8;--quiet:#98a2ad;
--faint:#363d46;--kept:#6cd49a;--kept-ground:#15301f;--broken:#ff8a80;--broken-ground:#401715;--allowed:#f0c060;
--allowed-ground:#3a2c0c;--none-ground:#242a31;--writes:#6cb0f5;--reads:#f0a35c;--latency:#b9a2f0;
--fault:#ff7b72;--l0:#27405c;--l1:#234a31;--l2:#57402a;--l3:#443358;--l4:#2d4649}}
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;max-width:1180px;margin:0 auto;padding:2em
1.4em 4em; background:var(--ground);color:var(--ink)}
h1{margin:0 0 .1em;font-size:1.9em}h2{margin:2.4em 0 .3em;font-size:1.35em;border-top:2px solid var(--faint);
padding-top:.8em}h3{margin:0;font-size:1.05em}
a{color:inherit}p{margin:.4em 0}
.quiet{color:var(--quiet)}.wide{overflow-x:auto}
.tally{display:flex;gap:.6em;flex-wrap:wrap;margin:1em 0}
.tally span{padding:.25em .8em;border-radius:4px;border:1px solid var(--faint)}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
.matrix{width:100%;min-width:720px;table-layout:fixed}
.matrix th{font-weight:600;text-align:left;vertical-align:bottom;padding:.45em .6em}
.matrix th.row{width:16%;vertical-align:top}
.matrix td{border:3px solid var(--ground);padding:0;vertical-align:top;border-radius:8px}
.matrix a{display:block;padding:.55em .7em;text-decoration:none;min-height:6.4em}
.matrix small,.figures small{color:var(--quiet);display:block;font-size:12.5px;line-height:1.45}
.target{font-weight:400;color:var(--quiet);display:block;font-size:13px}
.word{font-weight:700;display:block;margin-bottom:.15em}
.kept{background-color:var(--kept-ground)}.kept .word,.word.kept-word{color:var(--kept)}
.broken{background-color:var(--broken-ground);background-image:repeating-linear-gradient(135deg,
transparent 0 9px,color-mix(in srgb,var(--broken) 22%,transparent) 9px 11px)}.broken
.word{color:var(--broken)} .allowed{background-color:var(--allowed-ground);background-image:radial-gradient(
color-mix(in srgb,var(--allowed) 32%,transparent) 1px,transparent 1.4px);background-size:9px 9px}
.allowed .word{color:var(--allowed)}
.not-run{background-color:var(--none-ground)}.not-run .word{color:var(--quiet);font-weight:400}
.card{background:var(--card);border:1px solid var(--faint);border-radius:10px;margin:1.1em 0;padding:0;
overflow:hidden}
.card header{padding:.7em 1.1em;display:flex;gap:1em;align-items:baseline;flex-wrap:wrap}
.card header .word{display:inline;margin:0}
.card header .mode{font-weight:600}
.body{padding:.3em 1.1em 1em}
.sentence{font-size:1.06em;margin:.6em 0}
ul.promise{margin:.2em 0 .8em;padding-left:1.2em;color:var(--quiet)}
.columns{display:grid;grid-template-columns:repeat(auto-fit,minmax(250px,1fr));gap:1.4em;margin-top:1em;align-items:start}
.figures{width:100%;font-size:13.5px}
.figures caption{text-align:left;font-weight:600;padding-bottom:.3em}
.figures th{font-weight:400;text-align:left;padding:.16em 0;color:var(--ink)}
.figures td,.figures thead th{text-align:right;padding:.16em 0 .16em .7em;white-space:nowrap}
.figures thead th{color:var(--quiet)}.figures tbody tr{border-top:1px solid var(--faint)}
.bad{color:var(--broken);font-weight:700}.bad::after{content:" ✕"}
figure{margin:1em 0 0}details{margin-top:.8em}summary{cursor:pointer;color:var(--quiet)}
pre,code{font:12.5px/1.5 ui-monospace,"SF Mono",Menlo,Consolas,monospace}
pre{background:var(--none-ground);padding:.7em .9em;border-radius:6px;overflow-x:auto;white-space:pre-wrap;
overflow-wrap:anywhere;margin:.5em 0}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15em 1.2em;margin:.4em
0}dt{color:var(--quiet)}dd{margin:0} svg{width:100%;height:auto;display:block;margin-top:.4em}
svg text{font:11px system-ui,sans-serif;fill:var(--ink)}
svg .tick,svg .name{fill:var(--quiet)}
svg .name,svg .on-leader,svg .fault-name{paint-order:stroke;stroke:var(--card);stroke-width:3px}
svg .writes-name{fill:var(--writes);font-weight:600}
svg .reads-name{fill:var(--reads);font-weight:600}
svg .grid{stroke:var(--faint);stroke-width:1}svg .axis{stroke:var(--quiet);stroke-width:1}
svg .writes{fill:none;stroke:var(--writes);stroke-width:1.8}svg .writes-area{fill:var(--writes);opacity:.14}
svg .reads{fill:none;stroke:var(--reads);stroke-width:1.5;stroke-dasharray:5 3}
svg .latency{fill:none;stroke:var(--latency);stroke-width:1.6}svg .latency-dot{fill:var(--latency)}
svg .fault{fill:url(#hatch)}svg .fault-edge{stroke:var(--fault);stroke-width:1.6}
svg .fault-end{stroke:var(--fault);stroke-width:1;stroke-dasharray:3 3}
svg .fault-name{fill:var(--fault);font-weight:600}
svg .leader{stroke:var(--card);stroke-width:1}svg .leader-none{fill:url(#hatch);stroke:var(--fault)}
svg .leader-0{fill:var(--l0)}svg .leader-1{fill:var(--l1)}svg .leader-2{fill:var(--l2)}svg
.leader-3{fill:var(--l3)} svg .leader-4{fill:var(--l4)}
#patterns{position:absolute;width:0;height:0}#patterns path{stroke:var(--fault);stroke-width:1.1;opacity:.38}
@media print{:root{color-scheme:light;
--ground:#fff;--card:#fff;--ink:#000;--quiet:#444;--faint:#bbb;--kept:#0b5a33;
--kept-ground:#eef8f1;--broken:#8c1d18;--broken-ground:#fdeceb;--allowed:#6b4600;--allowed-ground:#fdf5e2;
--none-ground:#f2f2f2;--writes:#174f8c;--reads:#8a4108;--latency:#4b3585;--fault:#9a1c1c;--l0:#dbe7f5;
--l1:#dff0e3;--l2:#f7e7d3;--l3:#ece3f4;--l4:#e3edee}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}
body{max-width:none;padding:0;font-size:11px}.figures,.matrix small,.target{font-size:10px}
.card,.matrix tr{break-inside:avoid}h2{break-after:avoid}
details{display:none}.matrix a{min-height:0}.columns{grid-template-columns:repeat(3,1fr)}}
"""

PATTERNS = (
    '<svg id="patterns" aria-hidden="true"><defs><pattern id="hatch" width="7" height="7" '
    'patternUnits="userSpaceOnUse"><path d="M-1 8L8 -1M-1 1L1 -1M6 8L8 6"/></pattern></defs></svg>'
)
