#include "sluice/report/page.h"

namespace sluice {

// Colours of the page are the palette's "paper", "ink", "muted" and "grid",
// which to_html() puts in front as variables.
const char* const kPageStyle = R"css(
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);
 font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
header,main,footer{max-width:1180px;margin:0 auto;padding:0 20px}
header{padding-top:28px}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:1.25rem;margin:44px 0 12px;padding-top:10px;border-top:1px solid var(--grid)}
h3,figcaption{font-size:.95rem;font-weight:600;margin:0 0 6px}
p{margin:0 0 10px}
.sub,.note,figcaption small{color:var(--muted)}
.sub{margin:0;overflow-wrap:anywhere}
.note,figcaption small{font-size:.85rem;font-weight:400}
figcaption small{display:block}
.state{display:inline-block;font-size:.8rem;font-weight:600;border:1px solid currentColor;
 border-radius:99px;padding:1px 10px;vertical-align:middle;margin-left:8px;color:var(--muted)}
.state.finished{color:var(--good)}
.state.failed,.state.stopped,.state.unfinished{color:var(--bad)}
nav{margin:16px 0 0;font-size:.9rem;display:flex;flex-wrap:wrap;gap:4px 16px}
a{color:var(--link)}
.missing{border-left:4px solid var(--bad);background:var(--card);padding:10px 14px;margin:18px 0 0;
 border-radius:0 8px 8px 0;font-size:.92rem}
.missing ul{margin:4px 0 0;padding-left:20px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:22px 0 0}
.tile{background:var(--card);border-radius:10px;padding:12px 14px;min-width:0}
.tile b{display:block;font-size:1.35rem;line-height:1.25;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.tile span{font-size:.82rem;color:var(--muted);display:block}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,430px),1fr));gap:22px 26px;margin:0 0 18px}
figure{margin:0;min-width:0}
figure.wide{grid-column:1/-1}
figure svg{display:block;width:100%;height:auto}
figure.wide .scroll svg{min-width:760px}
ul.points{margin:0 0 12px;padding-left:22px}
ul.points li{margin:0 0 8px}
.scroll{overflow-x:auto;-webkit-overflow-scrolling:touch}
pre{background:var(--card);border-radius:8px;padding:10px 14px;overflow-x:auto;font-size:.85rem;margin:0 0 12px}
table{border-collapse:collapse;font-size:.88rem;font-variant-numeric:tabular-nums;width:100%}
.table{margin:0 0 22px}
th,td{padding:6px 10px;text-align:left;border-bottom:1px solid var(--grid);vertical-align:top}
td{white-space:nowrap}
td.long{white-space:normal;min-width:22em;overflow-wrap:anywhere}
td.n,th.n{text-align:right;white-space:nowrap}
thead th{border-bottom:2px solid var(--grid);font-weight:600;white-space:nowrap;vertical-align:bottom}
th button{all:unset;cursor:pointer;font-weight:600}
th button:focus-visible{outline:2px solid var(--link);outline-offset:2px}
th button::after{content:"";display:inline-block;width:1em;color:var(--muted)}
th[aria-sort=ascending] button::after{content:" \2191"}
th[aria-sort=descending] button::after{content:" \2193"}
tbody tr:hover{background:var(--card)}
.bars{margin:0 0 22px;display:grid;grid-template-columns:minmax(6em,max-content) 1fr max-content;gap:6px 10px;align-items:center;
 font-size:.88rem;font-variant-numeric:tabular-nums}
.bars h3,.bars .note{grid-column:1/-1;margin:0}
.bars .name{overflow-wrap:anywhere;max-width:15em}
.bar{height:14px;border-radius:3px;display:flex;overflow:hidden;min-width:2px}
.bar i{display:block;background:currentColor;height:100%}
.bar i+i{opacity:.35}
footer{margin-top:40px;padding-bottom:30px;color:var(--muted);font-size:.85rem}
@media (max-width:560px){
 body{font-size:15px}
 header,main,footer{padding-left:14px;padding-right:14px}
 h1{font-size:1.35rem}
 .tiles{grid-template-columns:repeat(2,1fr);gap:8px}
 .tile b{font-size:1.1rem}
 .bars{grid-template-columns:minmax(5em,8em) 1fr max-content;font-size:.8rem}
}
@media print{
 body{font-size:11pt}
 header,main,footer{max-width:none;padding:0}
 nav{display:none}
 h2{break-after:avoid}
 figure,.tile,tr,.bars{break-inside:avoid}
 .figures{grid-template-columns:1fr 1fr}
 .scroll{overflow:visible}
 figure.wide .scroll svg{min-width:0}
 table{font-size:7.5pt}
 th,td{padding:2px 4px}
 pre{white-space:pre-wrap}
 .bar i,.tile{-webkit-print-color-adjust:exact;print-color-adjust:exact}
}
)css";

// The page is whole without it: headings become buttons that sort.
const char* const kPageScript = R"js(
for (const table of document.querySelectorAll("table.sorts")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = row => {
        const cell = row.cells[column];
        return "v" in cell.dataset ? Number(cell.dataset.v) : cell.textContent;
      };
      const rows = [...body.rows];
      rows.sort((a, b) => {
        const x = key(a), y = key(b);
        const missing = v => v === "" || v === "-";
        if (missing(x) || missing(y)) return missing(x) - missing(y);
        const order = typeof x === "number" && typeof y === "number"
          ? x - y : String(x).localeCompare(String(y), "en", {numeric: true});
        return down ? -order : order;
      });
      body.append(...rows);
    });
  });
}
)js";

}  // namespace sluice
