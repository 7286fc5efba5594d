#!/usr/bin/env python3
"""Qwen3-8B before three judges, as one table: the linter, the emulator, and a GPU.

    qwen3_table.py static                  lint the examples
    qwen3_table.py emulate [--size tiny]   trace every trap on emulated graphs: full size without values, tiny with them
    qwen3_table.py cuda [--plain]          run everything on the GPU of this machine, within `--deadline` seconds
    qwen3_table.py render                  write the page from what the three have left

Each stage puts its part into the data file (`--data`, one JSON), with machine, torch version and date; `render` needs
no torch. `--plain` runs the scripts without the tracer: then only their own `OUTCOME` lines are known.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
QWEN3 = Path("examples/qwen3")
# What a GPU must have free, in GiB: bf16 weights take 15.3, gradients as much, AdamW's state twice that.
INFERENCE, TRAINING, GPU = 24, 76, 132


@dataclass
class Job:
    """One script to run. `gib` is its share of the GPU's memory; `alone` keeps its timings clean."""

    script: Path
    arguments: list[str] = field(default_factory=list)
    gib: int = INFERENCE
    alone: bool = False
    traced: bool = True

    @property
    def name(self) -> str:
        return self.script.stem


def traps() -> list[Job]:
    found = sorted((ROOT / QWEN3 / "traps").glob("*.py"))
    # Those that need most go first: the small ones fill the room beside them.
    jobs = [Job(path.relative_to(ROOT), gib=TRAINING if "optimizer" in path.stem else INFERENCE) for path in found]
    return sorted(jobs, key=lambda job: -job.gib)


def expected(script: Path) -> tuple[str, int, str]:
    """The rule and line that the script's own comment names, and its outcome on a GPU."""
    text = (ROOT / script).read_text(encoding="utf-8")
    outcome = re.search(r"^# outcome: (\S+)", text, re.M)
    for number, line in enumerate(text.splitlines(), 1):
        if mark := re.search(r"# expect: ([\w-]+)", line):
            return mark.group(1), number, outcome.group(1) if outcome else ""
    raise SystemExit(f"{script} has no expectation")


def finished(command: list[str], limit: float) -> dict[str, Any]:
    """Run to the end or the limit: exit status, output, seconds, CPU seconds, peak memory in MiB."""
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, text=True)
        alarm = threading.Timer(max(limit, 1), process.kill)
        alarm.start()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        alarm.cancel()
        output.seek(0)
        text = output.read()
    seconds = round(time.perf_counter() - start, 1)
    cpu = round(usage.ru_utime + usage.ru_stime, 1)
    return {"exit": process.returncode, "text": text, "seconds": seconds, "cpu": cpu, "mib": usage.ru_maxrss // 1024}


def run(job: Job, tracer: list[str], size: str, limit: float) -> dict[str, Any]:
    """Run one job, under the tracer if there is one: its own outcome, and what the tracer made of it."""
    with tempfile.TemporaryDirectory() as folder:
        own, trace = Path(folder, "own.json"), Path(folder, "trace.json")
        arguments = [str(job.script), "--size", size, "--report", str(own), *job.arguments]
        if tracer and job.traced:
            command = [*tracer, "--output-format", "json", "--output", str(trace), *arguments]
        else:
            command = [sys.executable, *arguments]
        done = finished(command, limit)
        record: dict[str, Any] = {key: done[key] for key in ("seconds", "cpu", "mib")}
        printed = re.findall(r"^OUTCOME: (\S+) *(.*)", done["text"], re.M)
        record["outcome"], record["detail"] = printed[-1] if printed else ("crash", last_line(done))
        if own.exists():
            report = json.loads(own.read_text(encoding="utf-8"))
            record |= {key: report[key] for key in ("figures", "torch", "transformers", "device") if report.get(key)}
        if tracer and job.traced:
            record |= judged(job, trace) if trace.exists() else {"trace": "none", "detail": last_line(done)}
    print(f"{job.name}: {record['outcome']}  {record['detail']}  ({record['seconds']} s)", flush=True)
    if record["outcome"] == "crash":
        print(done["text"][-3000:], flush=True)
    return record


def last_line(done: dict[str, Any]) -> str:
    lines = done["text"].strip().splitlines()
    return f"exit {done['exit']}: {lines[-1][:200] if lines else ''}"


def judged(job: Job, trace: Path) -> dict[str, Any]:
    """From a tracer's report: its outcome, and its verdict on the finding that the trap is about."""
    report = json.loads(trace.read_text(encoding="utf-8"))
    record = {"trace": report["trace"]["outcome"], "trace_detail": report["trace"].get("detail", "")}
    record["confirmed"] = sum(f.get("verdict") == "confirmed" for f in report["findings"])
    if times := [r["timing"] for r in report["regions"] if r.get("timing")]:
        record["timing"] = times
    try:
        rule, line, _ = expected(job.script)
    except SystemExit:
        return record
    here = [f for f in report["findings"] if f["rule"] == rule and f["path"].endswith(job.script.name)]
    here.sort(key=lambda f: (f["line"] != line, f.get("verdict") != "confirmed"))
    if here:
        record |= {"verdict": here[0].get("verdict"), "at": here[0]["line"], "evidence": here[0].get("evidence", "")}
    return record


def run_all(jobs: list[Job], tracer: list[str], size: str, deadline: float, workers: int) -> dict[str, Any]:
    """Run jobs side by side as far as the GPU's memory goes; those that want to be alone come last, one by one."""
    end = time.monotonic() + deadline
    free, changed = GPU, threading.Condition()
    results: dict[str, Any] = {}

    def one(job: Job) -> None:
        nonlocal free
        with changed:
            changed.wait_for(lambda: free >= job.gib)
            free -= job.gib
        try:
            results[job.name] = run(job, tracer, size, end - time.monotonic())
        finally:
            with changed:
                free += job.gib
                changed.notify_all()

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(one, [job for job in jobs if not job.alone]))
    for job in jobs:
        if job.alone and end - time.monotonic() > 20:
            one(job)
    return results


def static() -> dict[str, Any]:
    """Findings of the linter: the expected one of each trap, and how many there are in the right scripts."""
    results: dict[str, Any] = {}
    for job in traps():
        rule, line, _ = expected(job.script)
        own = [f for f in findings(job.script) if f["rule"] == rule]
        own.sort(key=lambda f: f["line"] != line)
        results[job.name] = {"found": f"{own[0]['path']}:{own[0]['line']}", "message": own[0]["message"]} if own else {}
        print(f"{job.name}: {results[job.name]}", flush=True)
    right = [f"{f['path']}:{f['line']} {f['rule']}" for job in right_scripts() for f in findings(job.script)]
    results["findings in the right scripts"] = right
    return results


def findings(script: Path) -> list[dict[str, Any]]:
    """All that the linter says of one script, transformers read from the environment of this Python."""
    command = [*graphlint(), "check", "--output-format", "json", "--exit-zero", "--python", sys.executable, str(script)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return found


def right_scripts() -> list[Job]:
    shapes = ["1x256", "1x2048", "4x4096"]
    modes = ["whole", "split", "triton-whole", "compiled", "compiled-whole"]
    return [
        Job(QWEN3 / "compile.py", ["--bench"], traced=False),
        Job(
            QWEN3 / "decode.py",
            ["--buckets", "1", "8", "32", "--bench", "--rmsnorm", "torch", "triton"],
            alone=True,
            traced=False,
        ),
        Job(
            QWEN3 / "train_step.py",
            ["--bench", "--steps", "4", "--shape", *shapes, "--modes", *modes],
            gib=GPU,
            alone=True,
            traced=False,
        ),
    ]


def emulated_scripts() -> list[Job]:
    """The traps, and the right versions with as much work as one run needs to show a fault."""
    whole = Job(QWEN3 / "train_step.py", ["--modes", "whole"])
    return [*traps(), Job(QWEN3 / "decode.py"), whole, Job(QWEN3 / "compile.py")]


def graphlint() -> list[str]:
    return [sys.executable, "-m", "graphlint"]


def stamped(results: dict[str, Any]) -> dict[str, Any]:
    """With the day; torch and device stand with the runs."""
    return {"date": datetime.date.today().isoformat(), "runs": results}


# ---------------------------------------------------------------------------------------------------------- the page


def render(data: dict[str, Any]) -> str:
    cuda = data["cuda"]
    first = next(run for run in cuda["runs"].values() if run.get("device"))
    lines = [
        "# Qwen3-8B under CUDA graphs",
        "",
        "Real `transformers` code at the published configuration (36 layers, hidden size 4096, 32 query and 8",
        "key-value heads, vocabulary 151,936; random bf16 weights), from `examples/qwen3/`: each trap before the",
        "linter, the emulator and a GPU.",
        "",
        f"GPU: {first['device']}, torch {first['torch']}, transformers {first.get('transformers', '5.17.0')}, "
        f"{cuda['date']}. One run of everything took {cuda['seconds']:.0f} s.",
        "This page is written by `scripts/qwen3_table.py` (`static`, `emulate`, `cuda`, `render`) from `qwen3.json`.",
        "",
        "## The traps",
        "",
        *trap_table(data),
        "",
        "A finding is *confirmed* when the run did at its line what the rule says. Emulation runs the full model",
        "without values, and judges silent traps by which memory is written, replayed and read. The tiny model has",
        "values. Emulated runs were made on two shared CPU cores; seconds are CPU time of the whole `graphlint trace`,",
        "start-up and the linter included.",
        "",
        "## The right versions",
        "",
        *emulated_table(data),
        *right_tables(cuda["runs"]),
    ]
    return "\n".join(lines) + "\n"


def trap_table(data: dict[str, Any]) -> list[str]:
    rows = ["| trap | static finding | emulated, full size | emulated, tiny | GPU | what the GPU said | verdict |"]
    rows += ["|---|---|---|---|---|---|---|"]
    static_runs, cuda = data.get("static", {}).get("runs", {}), data["cuda"]["runs"]
    emulated, tiny = (data.get(key, {}).get("runs", {}) for key in ("emulate 8b", "emulate tiny"))
    for name in sorted(job.name for job in traps()):
        rule, _, _ = expected(QWEN3 / "traps" / f"{name}.py")
        gpu, fake = cuda.get(name, {}), emulated.get(name, {})
        found = static_runs[name].get("found", "none").split("/")[-1] if name in static_runs else "not run"
        cost = "not run"
        if fake:
            verdict = fake.get("verdict", "not found")
            cost = f"{fake.get('trace', 'not run')}, {verdict}, {fake['cpu']:.0f} s, {fake['mib']:,} MiB"
        said = gpu.get("detail", "").replace("|", "\\|")
        verdict = gpu.get("verdict") or "not traced"
        small = tiny.get(name, {}).get("outcome", "not run")
        if tiny.get(name, {}).get("verdict"):
            small += f", {tiny[name]['verdict']}"
        rows.append(
            f"| {name}: `{rule}` | `{found}` | {cost} | {small} | {gpu.get('outcome', '')} | {said} | {verdict} |"
        )
    return rows


def emulated_table(data: dict[str, Any]) -> list[str]:
    runs = data.get("emulate 8b", {}).get("runs", {})
    right = [name for name in ("decode", "train_step", "compile") if name in runs]
    if not right:
        return []
    lines = ["Emulated at full size, without values, on two shared cores without a GPU:", ""]
    lines += ["| script | outcome | findings confirmed | CPU, s | MiB |", "|---|---|---|---|---|"]
    for name in right:
        run = runs[name]
        confirmed = run.get("confirmed", "")
        lines.append(f"| {name}.py | {run.get('trace', '')} | {confirmed} | {run['cpu']:.0f} | {run['mib']:,} |")
    return [*lines, ""]


def right_tables(runs: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    if figures := runs.get("decode", {}).get("figures"):
        lines += ["`decode.py`, one token for each row, cache of 512:", ""]
        lines += ["| RMSNorm | batch | eager, ms | replay, ms | faster |", "|---|---|---|---|---|"]
        for norm, row in figures.items():
            for batch, times in sorted(row.items(), key=lambda item: item[0].rjust(8)):
                if batch.startswith("batch"):
                    eager, replay = times["eager_ms"], times["replay_ms"]
                    name = norm.removeprefix("rmsnorm by ")
                    lines.append(f"| {name} | {batch[6:]} | {eager} | {replay} | {eager / replay:.1f}x |")
        lines += ["", outcome(runs["decode"]), ""]
    if figures := runs.get("compile", {}).get("figures"):
        lines += ['`compile.py`, `mode="reduce-overhead"`, two batch sizes in one graph tree:', ""]
        lines += ["| batch | eager, ms | compiled, ms | first tokens with compilation, s |", "|---|---|---|---|"]
        for batch in [key for key in figures if key.startswith("batch") and "compile_s" not in key]:
            row = figures[batch]
            taken = figures[f"{batch} compile_s"]
            lines.append(f"| {batch[6:]} | {row['eager_ms']} | {row['compiled_ms']} | {taken} |")
        lines += ["", outcome(runs["compile"]), ""]
    if figures := runs.get("train_step", {}).get("figures"):
        lines += ["`train_step.py`, forward, backward and AdamW, SDPA's flash kernels:", ""]
        lines += [
            "| shape | mode | step, ms | against eager | peak, GiB | losses off eager |",
            "|---|---|---|---|---|---|",
        ]
        modes = ["eager", "whole", "split", "triton-whole", "compiled", "compiled-whole"]
        for key in sorted(figures, key=lambda key: (len(key.split()[0]), key.split()[0], modes.index(key.split()[1]))):
            shape, mode = key.split()
            row, eager = figures[key], figures[f"{shape} eager"]["ms"]
            note = ", selective checkpointing" if row.get("checkpointing") else ""
            change = "" if mode == "eager" else f"{100 * (row['ms'] / eager - 1):.0f} %"
            lines.append(f"| {shape}{note} | {mode} | {row['ms']} | {change} | {row['peak_gib']} | {row['off']:.1%} |")
        lines += [
            "",
            "How far a loss is off is relative to the eager loss of the same step, at worst; by the last step that has",
        ]
        lines += ["fallen to a small part of the first one.", "", outcome(runs["train_step"]), ""]
    return lines


def outcome(run: dict[str, Any]) -> str:
    return f"Outcome: {run['outcome']}, {run['detail']}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=["static", "emulate", "cuda", "render"])
    parser.add_argument("--data", type=Path, default=ROOT / "docs" / "qwen3.json")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "qwen3.md")
    parser.add_argument("--from", dest="source", type=Path, help="take a stage's runs from another data file")
    parser.add_argument("--size", default="8b", choices=["8b", "tiny"])
    parser.add_argument("--plain", action="store_true", help="run the scripts without the tracer")
    parser.add_argument("--deadline", type=float, default=470.0, metavar="SECONDS")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these scripts alone")
    options = parser.parse_args()
    data = json.loads(options.data.read_text(encoding="utf-8")) if options.data.exists() else {}
    if options.stage == "render":
        options.page.write_text(render(data), encoding="utf-8")
        return
    if options.source:
        other = json.loads(options.source.read_text(encoding="utf-8"))
        for key, part in other.items():
            if key.startswith(options.stage):
                earlier = data.get(key, {})
                runs = earlier.get("runs", {}) | part["runs"]
                longest = max(part.get("seconds", 0), earlier.get("seconds", 0))
                data[key] = {**part, "runs": runs, "seconds": longest}
    elif options.stage == "static":
        data["static"] = stamped(static())
    elif options.stage == "emulate":
        chosen = [job for job in emulated_scripts() if not options.only or job.name in options.only]
        tracer = [*graphlint(), "trace", "--backend", "emulate", *(["--fake"] if options.size == "8b" else [])]
        key = f"emulate {options.size}"
        earlier = data.get(key, {}).get("runs", {}) if options.only else {}
        data[key] = stamped(earlier | run_all(chosen, tracer, options.size, options.deadline, workers=1))
    else:
        start = time.perf_counter()
        tracer = [] if options.plain else [*graphlint(), "trace", "--backend", "cuda"]
        jobs = [job for job in (*right_scripts(), *traps()) if not options.only or job.name in options.only]
        results = run_all(jobs, tracer, options.size, options.deadline, workers=4)
        earlier = data.get("cuda", {}).get("runs", {}) if options.only else {}
        seconds = data["cuda"]["seconds"] if earlier else round(time.perf_counter() - start)
        data["cuda"] = {**stamped(earlier | results), "seconds": seconds}
    text = json.dumps(data, indent=1, sort_keys=True) + "\n"
    options.data.parent.mkdir(parents=True, exist_ok=True)
    scratch = options.data.with_suffix(".new")
    scratch.write_text(text, encoding="utf-8")
    shutil.move(scratch, options.data)


if __name__ == "__main__":
    main()
