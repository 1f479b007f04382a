#!/usr/bin/env python3
"""Makes docs/validation.md: what `stormlp plan` predicts beside what was published and measured.

    benches/compare/validation.py --stormlp target/release/stormlp > docs/validation.md

The published rows are in benches/validation/published.csv, all of them, own runs (of
benches/compare/train_vs_plan.py) in benches/validation/own.csv. Nothing is measured here, and nothing is
fetched.
"""

import argparse
import csv
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
# How far `stormlp plan` is off

What `stormlp plan` predicts, beside published results and own measurements: how much to trust a plan.

Made by `benches/compare/validation.py --stormlp target/release/stormlp{chosen} > docs/validation.md`:
predicted by simulation, beside what was published and what was measured. [sizing.md](sizing.md) says how
plans and their ranges are made.

## Beside publications

Solidigm and QCT published MLPerf Storage v1.0 results of one server with one to eight drives in RAID 0:
two sockets of 52 cores, 2 TB of memory of which 1006 GiB counted, emulated H100s. Here are all rows in
which a number of accelerators *N* reached the threshold and is known, however they came out. Each is
predicted from the data sheets of its drives by one command, the default, with nothing else said:

    stormlp plan WORKLOAD --accelerator h100 --profile v1 --storage Nx:DRIVE --host-memory 1006GiB

*Holds* is whether the range has the published number in it; *width* is how many numbers wide it is.
AU is that of the published number of accelerators. Rows marked *client* are those that the model says the
client limits, not the drives. The rate at which a host reads (20 GiB/s, and 20 % more) was taken from these
publications' fast rows, so such rows show that one rate explains three workloads, not that it was known
beforehand. Of the D3-S4520 only the counts of resnet50 are available.
"""


def plan(args, row, *words, storage=None):
    command = [args.stormlp, "plan", row["workload"], "--accelerator", row["accelerator"],
               "--profile", row["profile"], "--storage", storage or row["storage"],
               "--host-memory", f"{row['host_memory_gib']}GiB", "--brief", "--format", "json", "--quiet",
               *words]
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
    client = plan(args, row, "-n", count, "--client", "dlio", "--host-cpus", "104")
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
    most = [judged(args, row) for row in rows if row["is_most"] == "yes"]
    print("| workload | storage | N published | N likely | error | range | holds | width | "
          "N from storage alone | AU % published | AU % likely | AU % range | |")
    print("|---|---|--:|--:|--:|--:|---|--:|--:|--:|--:|--:|---|")
    for row in most:
        answer = row["default"]
        au = " to ".join(f"{end:.0f}" for end in answer["au_percent_range"])
        print(f"| {row['workload']} | {row['storage']} | {row['count']} | {row['likely']} | "
              f"{row['error']:+.0f} % | {row['low']} to {row['high']} | {'yes' if row['holds'] else 'no'} | "
              f"{row['high'] - row['low']} | {answer['storage_alone_accelerators']} | {shown(row['au'])} | "
              f"{answer['au_percent']:.1f} | {au} | {'client' if row['is_of_client'] else ''} |")
    runs = [run_of_a_number(args, row) for row in rows if row["is_most"] != "yes"]
    others(runs)
    print("\n### Over all of them\n")
    print("What `stormlp plan` prints as its error. A run whose AU is not published decides nothing.\n")
    print(summary(most, runs))
    variants(most)
    left_out(args, most)


def summary(most, runs):
    """The sentence that `stormlp plan` prints, too."""
    decided = [run for run in runs if run["holds"] is not None]
    of_drives = [row for row in most if not row["is_of_client"]] + decided
    held = lambda rows: f"{sum(row['holds'] for row in rows)} of {len(rows)}"
    off = lambda rows: sorted(abs(row["error"]) for row in rows)
    errors, off_drives = off(most), off(row for row in most if not row["is_of_client"])
    wide = sum(row["high"] - row["low"] > row["likely"] / 2 + 2 for row in most)
    return (f"- all: the range held {held(most + decided)} published results "
            f"({held(of_drives)} drive-bound), N was off by "
            f"{statistics.median(errors):.0f} % (median), at most {errors[-1]:.0f} %\n"
            f"- drive-bound: N was off by {statistics.median(off_drives):.0f} % (median), at "
            f"most {off_drives[-1]:.0f} %\n"
            f"- the range was wider than half the likely number plus 2 in {wide} of {len(most)}")


def variants(rows):
    print("\n### With the client's cost, and with the page cache\n")
    print("The same rows by the same command with `--client dlio --host-cpus 104`, and with "
          "`cache=1006GiB` in `--storage`. Errors are of the largest number of accelerators, and of MiB/s at "
          "the published number. Neither option is right for all rows: the page cache explains rows above "
          "the drives' figures and spoils those far below, and the client's cost that another "
          "machine showed explains a third of cosmoflow's gap.\n")
    print("| workload | storage | N published | default | client | cache | error of N: default | client | "
          "cache | error of MiB/s: default | client | cache |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    ways = ["default", "client", "cache"]
    for row in rows:
        counts = [row[way]["largest_accelerators"] for way in ways]
        errors = [f"{percent(count, row['count']):+.0f} %" for count in counts]
        rates = [row[way]["mib_per_second"] for way in ways]
        of_rate = [shown(row["mib"] and percent(rate, row["mib"]), "{:+.1f} %") for rate in rates]
        print(f"| {row['workload']} | {row['storage']} | {row['count']} | "
              f"{' | '.join(map(str, counts))} | {' | '.join(errors)} | {' | '.join(of_rate)} |")
    print()
    print("\nThe range holds the published number, by the same commands:\n")
    print("| workload | storage | N published | default | holds | client | holds | cache | holds |")
    print("|---|---|--:|--:|---|--:|---|--:|---|")
    for row in rows:
        cells = [f"{low} to {high} | {'yes' if low <= row['count'] <= high else 'no'}"
                 for low, high in (row[way]["largest_accelerators_range"] for way in ways)]
        print(f"| {row['workload']} | {row['storage']} | {row['count']} | {' | '.join(cells)} |")
    print()
    for way in ways:
        ranges = [(row[way]["largest_accelerators_range"], row["count"]) for row in rows]
        held = sum(low <= count <= high for (low, high), count in ranges)
        of_count = [abs(percent(row[way]["largest_accelerators"], row["count"])) for row in rows]
        of_rate = [abs(percent(row[way]["mib_per_second"], row["mib"])) for row in rows if row["mib"]]
        print(f"- {way}: the range held {held} of {len(rows)}, N off by {statistics.median(of_count):.0f} % (median) and by {max(of_count):.0f} % at "
              f"most, MiB/s by {statistics.median(of_rate):.1f} % and {max(of_rate):.1f} %")


def left_out(args, rows):
    of_client = [row for row in rows if row["is_of_client"] and row["mib"]]
    names = sorted({row["workload"] for row in of_client})
    if len(names) < 2:
        return
    print("\n### The host's rate from the other workloads\n")
    print("The rows that the client limits again, with `--host-rate` as the mean of the published MiB/s of "
          "the other workloads' such rows: what would have been predicted without their own results.\n")
    print("| workload | rate from the others, MiB/s | N published | N predicted | error |")
    print("|---|--:|--:|--:|--:|")
    rates = {name: statistics.mean(row["mib"] for row in of_client if row["workload"] == name)
             for name in names}
    for name in names:
        rate = statistics.mean(value for other, value in rates.items() if other != name)
        row = next(row for row in of_client if row["workload"] == name)
        count = plan(args, row, "--host-rate", f"{rate:.0f}MiB/s")["largest_accelerators"]
        print(f"| {name} | {rate:.0f} | {row['count']} | {count} | {percent(count, row['count']):+.0f} % |")


def run_of_a_number(args, row):
    """What is predicted of a run that is not of the largest number."""
    answer = plan(args, row, "-n", row["accelerators"])
    au, (low, high) = number(row["au_percent"]), answer["au_percent_range"]
    # Both ends as they are shown.
    holds = None if au is None else round(low) <= au <= round(high)
    return {**row, "answer": answer, "au": au, "holds": holds}


def others(runs):
    if not runs:
        return
    print("\n### Runs of a number of accelerators\n")
    print("KIOXIA (DLIO, 18 emulated V100s on a CM7-R; AU and rate from the published time of five epochs) "
          "and Micron (MLPerf Storage v0.5, 15 V100s on a 9400) published runs, not the largest number. KIOXIA's "
          "drive has 3.84 TB, the preset is of 1.92 TB. Micron published no rate, only that it was 15 to "
          "20 % below the drive's maximum: the number here is 82.5 % of the 7000 MB/s that the preset has, "
          "too, so its error says little. Memory of Micron's host is not published. Of "
          "Kingston's DC3000ME neither figures of the drive nor results are available.\n")
    print("| workload | storage | N | AU % published | AU % likely | AU % range | holds | MiB/s published | "
          "MiB/s likely | error |")
    print("|---|---|--:|--:|--:|--:|---|--:|--:|--:|")
    for run in runs:
        answer, mib = run["answer"], number(run["mib_per_second"])
        au = " to ".join(f"{end:.0f}" for end in answer["au_percent_range"])
        holds = {True: "yes", False: "no", None: ""}[run["holds"]]
        print(f"| {run['workload']} | {run['storage']} | {run['accelerators']} | {shown(run['au'])} | "
              f"{answer['au_percent']:.1f} | {au} | {holds} | {mib:.0f} | {answer['mib_per_second']:.0f} | "
              f"{percent(answer['mib_per_second'], mib):+.1f} % |")


def own(args):
    print("\n## Beside own runs\n")
    path = os.path.join(DATA, "own.csv")
    if not os.path.exists(path):
        print("None are recorded yet: `benches/compare/train_vs_plan.py` makes them on a machine, by "
              "runs of `stormlp train` whose storage is throttled to known figures.")
        return
    print("Runs of `stormlp train` whose storage was throttled to known figures, by "
          "`benches/compare/train_vs_plan.py`, each predicted from those figures alone, now. Latency is the "
          "median that single reads through the same throttle had.\n")
    print("| workload | storage | N | AU % measured | AU % predicted | points | MiB/s measured | "
          "MiB/s predicted |")
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    off = []
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            case = next(case for case in train_vs_plan.CASES if case[0] == row["workload"])
            answer = train_vs_plan.predicted(args, case, row["storage"], row["accelerators"])
            told, seen = answer["au_percent"], float(row["measured_au_percent"])
            off.append(abs(told - seen))
            print(f"| {row['workload']} | {row['storage']} | {row['accelerators']} | {seen:.1f} | "
                  f"{told:.1f} | {told - seen:+.1f} | {float(row['measured_mib_per_second']):.0f} | "
                  f"{answer['mib_per_second']:.0f} |")
    within = sum(points <= 2 for points in off)
    print(f"\nAU within 2 points in {within} of {len(off)} runs, {max(off):.1f} at the most.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stormlp", required=True, help="the executable")
    parser.add_argument("--workload", nargs="+", default=WORKLOADS, choices=WORKLOADS,
                        help="rows of these alone")
    args = parser.parse_args()
    chosen = "" if set(args.workload) == set(WORKLOADS) else f" --workload {' '.join(args.workload)}"
    print(HEAD.format(chosen=chosen))
    published(args)
    own(args)


if __name__ == "__main__":
    main()
