#!/usr/bin/env python3
"""How often `stormlp compare --baseline A --candidate B` is right about real runs.

    benches/compare/verdicts.py --stormlp target/release/stormlp --dir /mnt/nvme --results verdicts

For three works (null path, 4 KiB from the page cache, 1 MiB with O_DIRECT) it compares the work with
itself, and with itself where every report loses a tenth of its throughput after it was measured: so
the noise is from real runs, and the change is known. The same work should be called different in
at most 5 % of the comparisons, and the tenth be found within 15 pairs in 9 of 10.

Ctrl-C ends it at any time, and the same command continues: finished work is in RESULTS/verdicts.jsonl,
with the reports next to it. `--figures` prints the table so far, without measuring.
There are no assertions. Other programs on the machine make the works noisier, not the verdicts wrong.
"""

import argparse
import collections
import json
import math
import os
import shlex
import statistics
import subprocess
import sys

WORKS = {
    "null path": "--path null --op read --io-size 4K --threads 1 --queue-depth 1",
    "4 KiB, warm": "--path buffered --op read --io-size 4K --threads 1 --queue-depth 1 --cache warm",
    "1 MiB, O_DIRECT": "--path cpu --op read --io-size 1M --threads 2 --queue-depth 4",
}
KINDS = {"same": 60, "tenth": 20}


def take_a_tenth(folder):
    """Takes a tenth of the throughput off the reports in a folder, as a slower run would have it."""
    for place, _, names in os.walk(folder):
        if "report.json" not in names:
            continue
        path = os.path.join(place, "report.json")
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        for cell in report["cells"]:
            for name in ("throughput_bytes_per_second", "iops"):
                cell[name] *= 0.9
            cell["duration_seconds"] /= 0.9
        with open(path, "w", encoding="utf-8") as file:
            json.dump(report, file)


def command(args, work):
    """The command of a run."""
    return (f"{shlex.quote(os.path.abspath(args.stormlp))} gds {WORKS[work]} --duration "
            f"{args.milliseconds}ms --file-size 64M --keep --dir {shlex.quote(args.dir)}")


def compare(args, work, kind, number):
    """One comparison, continued if it was cut off; its verdict."""
    results = os.path.join(args.results, work.replace(" ", "-").replace(",", ""), f"{kind}-{number:03}")
    run = command(args, work)
    itself = f"{shlex.quote(sys.executable)} {shlex.quote(os.path.abspath(__file__))}"
    against = run if kind == "same" else f'{run} && {itself} --take-a-tenth "$STORMLP_RESULTS_DIR"'
    begun = sorted(os.listdir(results)) if os.path.isdir(results) else []
    words = [args.stormlp, "compare", "--format", "json", "--quiet"]
    if begun:
        words += ["--resume", os.path.join(results, begun[-1])]
    else:
        words += ["--baseline", run, "--candidate", against, "--results-dir", results]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode == 130:
        raise KeyboardInterrupt
    if done.returncode != 0:
        sys.exit(f"{shlex.join(words)}\nended with {done.returncode}:\n{done.stderr}")
    answer = json.loads(done.stdout)
    first = answer["figures"][0]
    return {"work": work, "kind": kind, "number": number, "verdict": answer["verdict"],
            "throughput": first["verdict"], "pairs": answer["pairs"], "interval": first["interval"]}


def bound(hits, total):
    """The largest rate at which so few hits have a chance of 5 % (Clopper and Pearson)."""
    def chance(rate):
        return sum(math.comb(total, n) * rate ** n * (1 - rate) ** (total - n)
                   for n in range(hits + 1))
    if hits >= total:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle) > 0.05 else (low, middle)
    return high


def print_figures(answers):
    """The table for docs/compare.md."""
    print("| Work | The same work, called different | 95 % bound | A tenth less, found within 15 "
          "pairs | Pairs, median | Interval, median |")
    print("|---|--:|--:|--:|--:|--:|")
    for work in WORKS:
        of = collections.defaultdict(list)
        for answer in answers:
            if answer["work"] == work:
                of[answer["kind"]].append(answer)
        same, tenth = of["same"], of["tenth"]
        wrong = sum(one["verdict"] in ("better", "worse") for one in same)
        found = sum(one["throughput"] == "worse" for one in tenth)
        most = f"{100 * bound(wrong, len(same)):.1f} %" if same else ""
        pairs = statistics.median([one["pairs"] for one in same + tenth] or [math.nan])
        widths = [(one["interval"][1] - one["interval"][0]) / 2 for one in same + tenth]
        width = statistics.median(widths or [math.nan])
        print(f"| {work} | {wrong} of {len(same)} | {most} | {found} of {len(tenth)} | "
              f"{pairs:.0f} | ± {width:.1f} % |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stormlp", default="target/release/stormlp")
    parser.add_argument("--dir", default="stormlp-data/verdicts", help="where the test files lie")
    parser.add_argument("--results", default="stormlp-results/verdicts", help="what is done")
    parser.add_argument("--work", nargs="+", default=list(WORKS), choices=list(WORKS))
    parser.add_argument("--same", type=int, default=KINDS["same"], help="comparisons of each work with itself")
    parser.add_argument("--tenth", type=int, default=KINDS["tenth"], help="with a tenth less")
    parser.add_argument("--milliseconds", type=int, default=500, help="length of a run")
    parser.add_argument("--figures", action="store_true", help="print what there is")
    parser.add_argument("--take-a-tenth", metavar="DIR", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.take_a_tenth:
        take_a_tenth(args.take_a_tenth)
        return
    os.makedirs(args.results, exist_ok=True)
    log = os.path.join(args.results, "verdicts.jsonl")
    answers = []
    if os.path.exists(log):
        with open(log, encoding="utf-8") as file:
            answers = [json.loads(line) for line in file]
    done = {(one["work"], one["kind"], one["number"]) for one in answers}
    try:
        # Works take turns, so that whatever happens to the machine happens to all of them.
        for number in range(0 if args.figures else max(args.same, args.tenth)):
            for work in args.work:
                for kind, count in (("same", args.same), ("tenth", args.tenth)):
                    if number >= count or (work, kind, number) in done:
                        continue
                    answer = compare(args, work, kind, number)
                    answers.append(answer)
                    with open(log, "a", encoding="utf-8") as file:
                        file.write(json.dumps(answer) + "\n")
                    print(f"{work}, {kind} {number + 1}: {answer['verdict']} after "
                          f"{answer['pairs']} pairs", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("stopped; the same command continues", file=sys.stderr)
    print_figures(answers)


if __name__ == "__main__":
    main()
