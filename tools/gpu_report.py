#!/usr/bin/env python3
"""Turns what tools/gpu_check measured into lines of one table.

usage: gpu_report.py COMMAND RESULTS ARGUMENTS...

  note PART WHAT RESULT           a line without a bar
  tests PART WHAT LOG STATUS      of a run of GoogleTest
  pytest PART LOG STATUS          of a run of pytest
  sanitizer TOOL LOG STATUS       of compute-sanitizer; 124 is timeout's status
  select | cpu | wire | peers FILE...   of JSON of `sluice bench` or peers.py
  dense NAME METRICS THEIRS       samples/s beside those of Python
  sparse NAME METRICS DENSE       step beside a dense step
  net NAME METRICS WITHOUT        step beside the same without a network
  attach NAME JSON                step under DDP with sluice.attach beside one without
  repeat NAME WEIGHTS...          which must be the same
  end PART STATUS SECONDS         says how a part went
  table                           prints them all; fails if anything failed

RESULTS is the file that lines are appended to. A bar that is missed is shown;
what did not pass is a failure.
"""

import json
import re
import sys
from pathlib import Path

COLUMNS = ("part", "what", "result", "bar", "met")

# docs/benchmarks.md, On a GPU.
WHOLE_BAR = 1.15
ROWS_BAR, SHORT_ROWS_BAR, STRIDED_BAR = 1.2, 1.5, 1.3  # from 512 elements on, of fewer, interleaved
MODEL_BAR = 1.3
HARD_BAR = 3
SMALL_BAR = 15e-6
WIRE_BAR = 0.05
PEERS_BAR = 7
CPU_BAR = 1.5
DENSE_BAR = 0.97
SPARSE_BAR = 1.03
NET_BAR = 1.1

PASS, FAIL = "pass", "FAIL"
BY_ROWS = {"adtopk", "adtopk-interleaved", "tile"}
FIRST = ("topk", "adtopk", "sidco-p")  # have lines of their own


# --- lines ----------------------------------------------------------------


def line(part, what, result, bar="", met=""):
    return dict(zip(COLUMNS, (part, what, result, bar, met)))


def judged(part, what, value, bar, form="{:.2f}", at_least=False):
    """A figure beside its bar: at most that, unless `at_least`."""
    met = value >= bar if at_least else value <= bar
    shown = ("at least " if at_least else "") + form.format(bar)
    return line(part, what, form.format(value), shown, "yes" if met else "no")


def passed(part, what, ok, detail):
    return line(part, what, f"{PASS if ok else FAIL}: {detail}", PASS, "yes" if ok else "no")


def is_failure(row):
    return row["result"].startswith(FAIL)


def read(results):
    if not Path(results).exists():
        return []
    return [json.loads(text) for text in Path(results).read_text().splitlines()]


def append(results, rows):
    # One write, as parts that run side by side share the file.
    with open(results, "a") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows))


def as_table(rows, columns=COLUMNS):
    cells = [list(columns)] + [[str(row[key]) for key in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells)]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(each, widths)).rstrip() for each in cells)


# --- tests ----------------------------------------------------------------


def last_lines(text, count=1):
    return " | ".join([each.strip() for each in text.splitlines() if each.strip()][-count:]) or "it printed nothing"


def tests(part, what, log, status):
    """Nothing having run is a failure: without a GPU no test has its name."""
    text = Path(log).read_text(errors="replace")
    counts = {}  # of all shards
    for word, number in re.findall(r"^\[  (PASSED|SKIPPED|FAILED) +\] (\d+) test", text, re.M):
        counts[word] = counts.get(word, 0) + int(number)
    good, skipped = counts.get("PASSED", 0), counts.get("SKIPPED", 0)
    if int(status) == 0 and good > 0:
        return [passed(part, what, True, f"{good} tests" + (f", {skipped} skipped" if skipped else ""))]
    if counts.get("FAILED"):
        return [passed(part, what, False, f"{counts['FAILED']} of {good + counts['FAILED']} tests")]
    if int(status) == 0:
        return [passed(part, what, False, "no test ran")]
    return [passed(part, what, False, f"exit status {status}, last line: {last_lines(text)}")]


def pytest(part, log, status):
    text = Path(log).read_text(errors="replace")
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|errors?)\b", last_lines(text))}
    good, skipped = counts.get("passed", 0), counts.get("skipped", 0)
    if int(status) == 0 and good > 0:
        return [passed(part, "", True, f"{good} tests" + (f", {skipped} skipped" if skipped else ""))]
    return [passed(part, "", False, f"exit status {status}, last line: {last_lines(text)}")]


def sanitizer(tool, log, status):
    text = Path(log).read_text(errors="replace")
    found = re.findall(r"SUMMARY: (\d+) (?:errors?|hazards? displayed \((\d+) errors?)", text)
    errors = sum(int(inner or outer) for outer, inner in found)
    if errors > 0:
        return [passed(tool, "", False, f"{errors} errors")]
    # One that was ended has no summary.
    seen = re.search(r"^=+ ((?:Invalid|Misaligned|Error|Race|Barrier).*)", text, re.M)
    if seen:
        return [passed(tool, "", False, seen[1])]
    if re.search(r"PASSED +\] 0 tests", text):
        return [passed(tool, "", False, "no test ran")]
    if int(status) in (124, 137):  # a lack of time is not an error found
        return [line(tool, "", "ran out of time, nothing found until then", PASS, "no")]
    if int(status) != 0 or not found:
        return [passed(tool, "", False, f"exit status {status}, last line: {last_lines(text)}")]
    return [passed(tool, "", True, f"{len(found)} runs without an error")]


def repeat(name, *weights):
    same = len(set(weights)) == 1
    return [passed("repeat", name, same, weights[0] if same else " ".join(weights))]


# --- benches --------------------------------------------------------------


def size_name(n):
    """25M of 24999936, as a bench keeps whole rows only."""
    for unit, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if n >= 0.99 * unit:
            return f"{n / unit:.0f}{letter}"
    return str(n)


def percent(share):
    return f"{100 * share:g} %"


def steady_rows(files):
    rows = [row for file in files for row in json.loads(Path(file).read_text())]
    return [row for row in rows if row.get("phase", "steady") == "steady"]


def has_other_rows(row):
    return row["sparsifier"] in BY_ROWS and (row["row"], row["stride"]) != (1024, 1)


def select_bar(row):
    if row.get("model"):
        return MODEL_BAR
    if row["data"] != "randn":
        return HARD_BAR
    if row["sparsifier"] not in BY_ROWS:
        return WHOLE_BAR
    if row["stride"] != 1:
        return STRIDED_BAR
    return ROWS_BAR if row["row"] >= 512 else SHORT_ROWS_BAR


def select_name(row):
    if row.get("model"):
        return f"{row['sparsifier']} {row['model']} {percent(row['density'])}"
    shape = f" rows {row['row']:g}" if has_other_rows(row) else ""
    shape += f" stride {row['stride']:g}" if row["stride"] != 1 else ""
    data = "" if row["data"] == "randn" else f" {row['data']}"
    return f"{row['sparsifier']}{shape}{data} {size_name(row['n'])} {percent(row['density'])}"


def worst(rows):
    return max(rows, key=lambda row: row["ratio"] / select_bar(row))


def select(*files):
    """Prints all ratios; the usual three at 1 % and the worst of the others have lines."""
    rows = steady_rows(files)
    print(as_table([{"what": select_name(row), "us": f"{1e6 * row['seconds']:.1f}", "ratio": f"{row['ratio']:.2f}",
                     "bar": select_bar(row)} for row in rows], ("what", "us", "ratio", "bar")))
    small = [row for row in rows if row["n"] < 2_000_000]
    large = [row for row in rows if row["n"] >= 2_000_000 and row["density"] == 0.01]
    usual = [row for row in large
             if row.get("model") or (row["sparsifier"] in FIRST and row["data"] == "randn" and not has_other_rows(row))]
    out = [judged("select", select_name(row), row["ratio"], select_bar(row)) for row in usual]
    groups = {}
    for row in large:
        if row not in usual:
            name = "hard data" if row["data"] != "randn" else "rows" if has_other_rows(row) else "others"
            groups.setdefault(name, []).append(row)
    for name, members in groups.items():
        row = worst(members)
        out.append(judged("select", f"worst of {name}: {select_name(row)}", row["ratio"], select_bar(row)))
    for row in small:
        out.append(judged("select", f"{select_name(row)}, us", 1e6 * row["seconds"], 1e6 * SMALL_BAR, "{:.0f}"))
    return out


def cpu(*files):
    return [judged("cpu", f"{select_name(row)} {row['threads']} threads", row["ratio"], CPU_BAR)
            for row in steady_rows(files)]


def wire(*files):
    rows = [row for row in steady_rows(files) if row["codec"] == "auto"]
    return [judged("wire", f"{way} {size_name(row['n'])} {percent(row['density'])}, {1e6 * row[way + '_seconds']:.0f} us,"
                   " share of select", row[way + "_share"], WIRE_BAR, "{:.1%}")
            for row in rows for way in ("encode", "decode")]


def peers(*files):
    """The bar is topk's; the others have none."""
    out = []
    for row in steady_rows(files):
        what = (f"{row['method']} {size_name(row['n'])} {percent(row['density'])}, {1e3 * row['sluice_seconds']:.3f} / "
                f"{1e3 * row['torch_seconds']:.3f} ms of torch, times as fast")
        if row["method"] == "topk":
            out.append(judged("peers", what, row["speedup"], PEERS_BAR, "{:.1f}", at_least=True))
        else:
            out.append(line("peers", what, f"{row['speedup']:.1f}"))
    return out


# --- training -------------------------------------------------------------


def means(metrics):
    """Means over the second half of a run, when algorithms are chosen."""
    rows = [json.loads(text) for text in Path(metrics).read_text().splitlines()]
    rows = [row for row in rows if row["kind"] == "train"]
    rows = rows[len(rows) // 2:]
    if not rows:
        raise ValueError(f"[gpu_report] {metrics} must have a line of training, as log-every gives")
    keys = ("samples_per_s", "step_s", "exposed_s", "bytes_per_step")
    return {key: sum(row[key] for row in rows) / len(rows) for key in keys}


def dense(name, metrics, theirs):
    ours = means(metrics)["samples_per_s"]
    return [judged("dense", f"{name} {ours:.0f} / {float(theirs):.0f} samples/s", ours / float(theirs), DENSE_BAR,
                   "{:.3f}", at_least=True)]


def sparse(name, metrics, beside):
    run, whole = means(metrics)["step_s"], means(beside)["step_s"]
    return [judged("sparse", f"{name} {1e3 * run:.1f} / {1e3 * whole:.1f} ms of dense", run / whole, SPARSE_BAR)]


def attach(name, log):
    """Of attach_overhead.py; its one line of JSON may stand among warnings."""
    lines = [text for text in Path(log).read_text().splitlines() if text.startswith("{")]
    row = json.loads(lines[-1])
    what = f"{name} {1e3 * row['ours_s']:.1f} / {1e3 * row['plain_s']:.1f} ms of plain DDP"
    return [judged("attach", what, row["ratio"], SPARSE_BAR, "{:.3f}")]


def net(name, metrics, without):
    run, alone = means(metrics), means(without)
    what = (f"{name} {1e3 * run['step_s']:.1f} / {1e3 * alone['step_s']:.1f} ms without network, "
            f"{1e3 * run['exposed_s']:.1f} exposed, {1e-6 * run['bytes_per_step']:.2f} MB sent")
    ratio = run["step_s"] / alone["step_s"]
    # The bar is that of sparse exchanges at 10 Gbit/s.
    if "dense" in name or not name.endswith(" 10Gbit"):
        return [line("net", what, f"{ratio:.2f}")]
    return [judged("net", what, ratio, NET_BAR)]


# --- the whole ------------------------------------------------------------


def note(part, what, result):
    return [line(part, what, result)]


COMMANDS = {each.__name__: each for each in
            (note, tests, pytest, sanitizer, repeat, select, cpu, wire, peers, dense, sparse, attach, net)}


def end(results, part, status, seconds):
    """A part that stopped without a failing line of its own gets one."""
    failed = any(row["part"] == part and is_failure(row) for row in read(results))
    if int(status) != 0 and not failed:
        append(results, [passed(part, "", False, f"exit status {status}, see above")])
        failed = True
    print(f"[gpu_check] {part} {'failed' if failed else 'is done'} after {seconds} s", flush=True)


def table(results):
    rows = read(results)
    order = {part: i for i, part in reversed(list(enumerate(row["part"] for row in rows)))}
    print(as_table(sorted(rows, key=lambda row: order[row["part"]])))
    return 1 if not rows or any(map(is_failure, rows)) else 0


def main(arguments):
    if len(arguments) < 2 or arguments[0] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if arguments[:1] in (["-h"], ["--help"]) else 2
    command, results, *rest = arguments
    if command == "table":
        return table(results)
    if command == "end":
        return end(results, *rest)
    rows = COMMANDS[command](*rest)
    append(results, rows)
    print(as_table(rows, COLUMNS[1:]), flush=True)
    return 1 if any(map(is_failure, rows)) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
