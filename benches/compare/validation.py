#!/usr/bin/env python3
"""Prints the first two sections of docs/validation.md: predictions of `stormlp plan` next to published and
measured results.

    benches/compare/validation.py --stormlp target/release/stormlp

The published rows are in benches/validation/published.csv, our runs (of benches/compare/train_vs_plan.py) in
benches/validation/own.csv. Rows of `mlperf` are those of the closed division of MLPerf Storage v1.0 with the
maximum number of accelerators and figures of storage and network: the smaller of the bandwidth that drives
and the servers' ports are said to have, and the ports of a client. Constants are fitted to systems whose
name has an even SHA-256 (its first byte); the error over networks is that of the odd ones. Nothing is
measured here, and nothing is fetched.
"""

import argparse
import csv
import hashlib
import json
import os
import statistics
import subprocess
import sys

import train_vs_plan

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "validation")
WORKLOADS = ["resnet50", "unet3d", "cosmoflow"]

HEAD = """\
## Does `plan` predict published results?

Solidigm and QCT published MLPerf Storage v1.0 results of one server with one to eight drives in RAID 0:
104 cores, 1006 GiB of memory, emulated H100s. The table has all rows with a maximum number of accelerators
known: published, then predicted with the range, by one command from the data sheets of the drives:

    stormlp plan WORKLOAD --accelerator h100 --edition 1.0 --storage Nx:DRIVE --host memory=1006GiB

`*`: the model says that the client is the limit. Its rate (20 GiB/s; 10 to 24) was taken from such
rows, so they show that one rate explains three workloads, not that it was known beforehand.
"""


def plan(args, row, *words, storage=None, host=""):
    command = [args.stormlp, "plan", row["workload"], "--accelerator", row["accelerator"],
               "--edition", {"v1": "1.0", "v2": "2.0"}[row["profile"]], "--storage", storage or row["storage"],
               "--host", f"memory={row['host_memory_gib']}GiB{host}", "--format", "json", "--quiet",
               *(["--hosts", row["hosts"]] if row["hosts"] != "1" else []), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def number(text):
    return float(text) if text else None


def percent(predicted, published):
    return 100 * (predicted / published - 1)


def judged(args, row):
    """Everything that is predicted of a row."""
    count = row["accelerators"]
    default = plan(args, row, "-n", count)
    client = plan(args, row, "-n", count, "--client-overhead", "dlio", host=",cpus=104")
    cached = f"{row['storage']},cache={row['host_memory_gib']}GiB"
    cache = plan(args, row, "-n", count, storage=cached)
    low, high = default["largest_accelerators_range"]
    return {
        **row, "count": int(count), "au": number(row["au_percent"]), "mib": number(row["mib_per_second"]),
        "default": default, "client": client, "cache": cache, "low": low, "high": high,
        "likely": default["largest_accelerators"], "holds": low <= int(count) <= high,
        "is_of_client": default["search_limited_by"] == "client",
        "error": percent(default["largest_accelerators"], int(count)),
    }


def shown(value, form="{:.1f}"):
    return "" if value is None else form.format(value)


def published(args):
    with open(os.path.join(DATA, "published.csv"), newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["workload"] in args.workload]
    official = [row for row in rows if row["publication"] == "mlperf"]
    rows = [row for row in rows if row["publication"] != "mlperf"]
    most = [judged(args, row) for row in rows if row["is_most"] == "yes"]
    print(f"| Storage | {' | '.join(args.workload)} |")
    print("|---" * (1 + len(args.workload)) + "|")
    for storage in dict.fromkeys(row["storage"] for row in most):
        cells = []
        for workload in args.workload:
            found = [row for row in most if (row["storage"], row["workload"]) == (storage, workload)]
            cells.append("; ".join(
                f"{row['count']}: {row['likely']}{'*' if row['is_of_client'] else ''} ({row['low']}–{row['high']})"
                for row in found))
        print(f"| {storage} | {' | '.join(cells)} |")
    runs = [run_of_a_number(args, row) for row in rows if row["is_most"] != "yes"]
    others(runs)
    print("\n`stormlp plan` prints the first as its error:\n")
    print(summary(most, runs))
    variants(most)
    left_out(args, most)
    systems(args, official)


def is_even(row):
    return hashlib.sha256(row["system"].encode()).digest()[0] % 2 == 0


def held(name, answers):
    """A line about pairs of a row and its answer."""
    if not answers:
        return
    inside, off, wide = 0, [], 0
    for row, answer in answers:
        (low, high), likely = answer["largest_accelerators_range"], answer["largest_accelerators"]
        inside += low <= int(row["accelerators"]) <= high
        off.append(abs(percent(likely, int(row["accelerators"]))))
        wide += high - low > likely / 2 + 2
    print(f"- {name}: the range held {inside} of {len(answers)} published results, N was off by "
          f"{statistics.median(off):.0f} % (median), at most {max(off):.0f} %; it was wider than half the likely "
          f"number plus 2 in {wide}", flush=True)


def systems(args, rows):
    """Official results by kind of storage, with and without the rate of a host."""
    print("\nOfficial results of v1.0:\n")
    networks = [row for row in rows if "link=" in row["storage"]]
    for kind, of_kind in [("networks", [row for row in networks if row["hosts"] == "1"]),
                          ("networks of several clients", [row for row in networks if row["hosts"] != "1"]),
                          ("single drives", [row for row in rows if "link=" not in row["storage"]])]:
        for half, of_half in [("", [row for row in of_kind if not is_even(row)]),
                              (" (even names)", [row for row in of_kind if is_even(row)])]:
            rates = {id(row): float(row["mib_per_second"]) / int(row["hosts"]) for row in of_half}
            default = [(row, plan(args, row)) for row in of_half]
            held(f"{kind}{half}", default)
            known = [(row, plan(args, row, host=f",read={rates[id(row)]:.0f}MiB/s")) for row in of_half]
            held(f"{kind}{half}, with the row's rate per host as read=", known)
            # The same hosts and workload with the other accelerator.
            others = [(row, other) for row in of_half for other in of_half if row is not other and
                      all(row[key] == other[key] for key in ["system", "workload"])]
            other = [(row, plan(args, row, host=f",read={rates[id(other)]:.0f}MiB/s")) for row, other in others]
            held(f"{kind}{half}, with the rate at the other accelerator as read=", other)
            if args.rows:
                for (row, answer), (_, answer_known) in zip(default, known):
                    print(f"    {row['system']}, {row['workload']} {row['accelerator']}, {row['hosts']} hosts, "
                          f"{rates[id(row)] / 1024:.1f} GiB/s each: {row['accelerators']} published, "
                          + ", ".join(f"{one['largest_accelerators']} {one['largest_accelerators_range']}"
                                      for one in (answer, answer_known)))


def summary(most, runs):
    """The sentence that `stormlp plan` prints, too."""
    decided = [run for run in runs if run["holds"] is not None]
    of_drives = [row for row in most if not row["is_of_client"]] + decided
    held = lambda rows: f"{sum(row['holds'] for row in rows)} of {len(rows)}"
    off = lambda rows: sorted(abs(row["error"]) for row in rows)
    errors, off_drives = off(most), off(row for row in most if not row["is_of_client"])
    wide = sum(row["high"] - row["low"] > row["likely"] / 2 + 2 for row in most)
    return (f"- drives: the range held {held(most + decided)} published results, N was off by "
            f"{statistics.median(errors):.0f} % (median), at most {errors[-1]:.0f} %\n"
            f"- drive-bound: the range held {held(of_drives)}, N was off by "
            f"{statistics.median(off_drives):.0f} % (median), at most {off_drives[-1]:.0f} %\n"
            f"- the range was wider than half the likely number plus 2 in {wide} of {len(most)}")


def variants(rows):
    print("\nWith `--client-overhead dlio --host cpus=104` (client) and `cache=1006GiB` (cache), the same rows:\n")
    for way in ["client", "cache"]:
        ranges = [(row[way]["largest_accelerators_range"], row["count"]) for row in rows]
        held = sum(low <= count <= high for (low, high), count in ranges)
        of_count = [abs(percent(row[way]["largest_accelerators"], row["count"])) for row in rows]
        of_rate = [abs(percent(row[way]["mib_per_second"], row["mib"])) for row in rows if row["mib"]]
        print(f"- {way}: the range held {held} of {len(rows)}, N was off by {statistics.median(of_count):.0f} % "
              f"(median), at most {max(of_count):.0f} %, MiB/s by {statistics.median(of_rate):.1f} % and "
              f"{max(of_rate):.1f} %")


def left_out(args, rows):
    of_client = [row for row in rows if row["is_of_client"] and row["mib"]]
    names = sorted({row["workload"] for row in of_client})
    if len(names) < 2:
        return
    rates = {name: statistics.mean(row["mib"] for row in of_client if row["workload"] == name)
             for name in names}
    said = []
    for name in names:
        rate = statistics.mean(value for other, value in rates.items() if other != name)
        row = next(row for row in of_client if row["workload"] == name)
        count = plan(args, row, host=f",read={rate:.0f}MiB/s")["largest_accelerators"]
        said.append(f"{name} {count} instead of {row['count']} ({percent(count, row['count']):+.0f} %)")
    print(f"\nWith the host's rate taken from the other two workloads: {', '.join(said)}.")


def run_of_a_number(args, row):
    """The prediction for a run that is not of the largest number."""
    answer = plan(args, row, "-n", row["accelerators"])
    au, (low, high) = number(row["au_percent"]), answer["au_percent_range"]
    # Both ends as they are shown.
    holds = None if au is None else round(low) <= au <= round(high)
    return {**row, "answer": answer, "au": au, "holds": holds}


def others(runs):
    for run in runs:
        answer, mib = run["answer"], number(run["mib_per_second"])
        au = "–".join(f"{end:.0f}" for end in answer["au_percent_range"])
        of_au = f"AU {shown(run['au'])} % published, {au} % predicted; " if run["au"] else ""
        print(f"\n{run['accelerators']} {run['accelerator']} on {run['storage']}, {run['workload']}: {of_au}"
              f"{mib:.0f} MiB/s published, {answer['mib_per_second']:.0f} predicted.")


def own(args):
    print("\n## Does `plan` predict stormlp's own runs?\n")
    path = os.path.join(DATA, "own.csv")
    if not os.path.exists(path):
        print("None are recorded yet: run `benches/compare/train_vs_plan.py`.")
        return
    print("Runs of `stormlp train` on throttled storage (`benches/compare/train_vs_plan.py`): AU % measured, then "
          "predicted from the throttle's figures alone.\n")
    print("| Workload | Storage | N = 1 | 2 | 3 | 4 |\n|---|---|---|---|---|---|")
    off, lines = [], {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            case = next(case for case in train_vs_plan.CASES if case[0] == row["workload"])
            answer = train_vs_plan.predicted(args, case, row["storage"], row["accelerators"])
            told, seen = answer["au_percent"], float(row["measured_au_percent"])
            off.append(abs(told - seen))
            line = lines.setdefault((row["workload"], row["storage"]), [])
            line.append(f"{seen:.1f}: {told:.1f}")
    for (workload, storage), cells in lines.items():
        print(f"| {workload} | {storage} | {' | '.join(cells)} |")
    within = sum(points <= 2 for points in off)
    print(f"\nAU was within 2 points in {within} of {len(off)} runs, off by at most {max(off):.1f}.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stormlp", required=True, help="the executable")
    parser.add_argument("--workload", nargs="+", default=WORKLOADS, choices=WORKLOADS,
                        help="rows of these alone")
    parser.add_argument("--rows", action="store_true", help="list the rows of official results, too")
    parser.add_argument("--official", action="store_true", help="official results alone")
    args = parser.parse_args()
    if args.official:
        with open(os.path.join(DATA, "published.csv"), newline="") as file:
            systems(args, [row for row in csv.DictReader(file) if row["publication"] == "mlperf"
                           and row["workload"] in args.workload])
        return
    print(HEAD)
    published(args)
    own(args)


if __name__ == "__main__":
    main()
