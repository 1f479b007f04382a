#!/usr/bin/env python3
"""Makes docs/validation.md: what `stormlp plan` predicts beside what was published and measured.

    benches/compare/validation.py --stormlp target/release/stormlp > docs/validation.md

The published rows are in benches/validation/published.csv, own runs (of benches/compare/train_vs_plan.py)
in benches/validation/own.csv. Nothing is measured here, and nothing is fetched.
"""

import argparse
import csv
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "validation")
MEMORY_GIB = 1006
# Seconds that an H100 computes in a step, and MB/s that a drive reads by its maker.
COMPUTE = {"unet3d": 0.323, "resnet50": 0.224, "cosmoflow": 0.0035}
DRIVES = {"solidigm-d7-ps1010": 14500, "solidigm-d5-p5336": 7000}
MIB = 1 << 20

HEAD = """\
# How far `stormlp plan` is off

Made by `benches/compare/validation.py --stormlp target/release/stormlp{chosen} > docs/validation.md`:
predicted by simulation, beside what was published and what was measured. [sizing.md](sizing.md) says how
plans are made.

## Beside a publication

Solidigm published MLPerf Storage v1.0 results of one server with one to eight drives in RAID 0:
two sockets of 52 cores, 2 TB of memory of which {memory} GiB counted, datasets of 5030 GiB, emulated
H100s. Drives read 14,500 MB/s (D7-PS1010) and 7,000 MB/s (D5-P5336) by their maker. Each row was predicted
from that bandwidth only, by

    stormlp plan WORKLOAD --accelerator h100 --profile v1 --storage Nx:DRIVE --host-memory {memory}GiB -n N

*N* is the most accelerators that reached the threshold. MiB/s are of the published number of
accelerators. What limits a row follows from three numbers:

- **drives**: the published rate is within the drives' specification, and no more than one accelerator or
  5 % beyond the published number would fit it.
- **memory**: the published rate is above the specification, so part of the bytes came from the page
  cache. These rows are predicted with `cache={memory}GiB`, too.
- **client**: drives would feed more. The host added time to each step, independent of the drives:
  c (1 / AU − 1) for a compute time of c. The row is predicted with that time as `--host-cost-per-step`,
  which shows that it explains the row, not that it was known beforehand.
"""


def plan(args, row, storage, *words):
    command = [args.stormlp, "plan", row["workload"], "--accelerator", "h100", "--profile", "v1",
               "--storage", storage, "--host-memory", f"{MEMORY_GIB}GiB", "-n", row["accelerators"],
               "--brief", "--format", "json", "--quiet", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def judged(args, row):
    """What limits a published row, and what is predicted of it."""
    count, drives = int(row["accelerators"]), int(row["drives"])
    rate, au = float(row["mib_per_second"]), float(row["au_percent"])
    storage = f"{drives}x:{row['drive']}"
    specified = drives * DRIVES[row["drive"]] * 1e6 / MIB
    bare = plan(args, row, storage)
    near = max(1, 0.05 * count)
    if rate > specified:
        kind, told = "memory", plan(args, row, f"{storage},cache={MEMORY_GIB}GiB")
        why = f"{100 * rate / specified:.0f} % of the specification"
    elif bare["largest_accelerators"] <= count + near:
        kind, told, why = "drives", bare, ""
    else:
        cost = COMPUTE[row["workload"]] * (100 / au - 1)
        kind = "client"
        told = plan(args, row, storage, "--host-cost-per-step", f"{cost * 1e6:.0f}us")
        why = f"{cost * 1e3:.2f} ms a step"
    return {
        **row, "kind": kind, "why": why, "largest": told["largest_accelerators"],
        "bare": bare["largest_accelerators"], "au": told["au_percent"],
        "mib": told["mib_per_second"], "error": 100 * (told["mib_per_second"] / rate - 1),
        "near": abs(told["largest_accelerators"] - count) <= near,
    }


def published(args):
    with open(os.path.join(DATA, "published.csv"), newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["workload"] in args.workload]
    rows = [judged(args, row) for row in rows]
    for kind, title in [("drives", "Limited by the drives"), ("memory", "Served from memory in part"),
                        ("client", "Limited by the client")]:
        of_kind = [row for row in rows if row["kind"] == kind]
        if not of_kind:
            continue
        print(f"\n### {title}\n")
        why = {"drives": "", "memory": "published rate", "client": "time that the host adds"}[kind]
        print(f"| workload | drives | N published | N predicted | N from drives alone | AU % published | "
              f"AU % predicted | MiB/s published | MiB/s predicted | error |{f' {why} |' if why else ''}")
        print("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|" + ("--:|" if why else ""))
        for row in of_kind:
            print(f"| {row['workload']} | {row['drives']} × {row['drive']} | {row['accelerators']} | "
                  f"{row['largest']} | {row['bare']} | {float(row['au_percent']):.1f} | {row['au']:.1f} | "
                  f"{float(row['mib_per_second']):.0f} | {row['mib']:.0f} | {row['error']:+.1f} % |"
                  f"{' ' + row['why'] + ' |' if why else ''}")
        worst = max(abs(row["error"]) for row in of_kind)
        hit = sum(row["near"] for row in of_kind)
        # A cost that was taken from the row itself says nothing of other numbers.
        counts = "" if kind == "client" else f"N within 1 or 5 % in {hit} of {len(of_kind)} rows, "
        print(f"\n{counts}MiB/s within {worst:.1f} %.")


def own():
    print("\n## Beside own runs\n")
    path = os.path.join(DATA, "own.csv")
    if not os.path.exists(path):
        print("None are recorded yet: `benches/compare/train_vs_plan.py` makes them on a machine at hand, by "
              "runs of `stormlp train` whose storage is throttled to known figures.")
        return
    print("Runs of `stormlp train` whose storage was throttled to known figures, by "
          "`benches/compare/train_vs_plan.py`, each predicted from those figures alone. Latency is the "
          "median that single reads through the same throttle had.\n")
    print("| workload | storage | N | AU % measured | AU % predicted | points | MiB/s measured | "
          "MiB/s predicted |")
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    off = []
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            told, seen = float(row["predicted_au_percent"]), float(row["measured_au_percent"])
            off.append(abs(told - seen))
            print(f"| {row['workload']} | {row['storage']} | {row['accelerators']} | {seen:.1f} | "
                  f"{told:.1f} | {told - seen:+.1f} | {float(row['measured_mib_per_second']):.0f} | "
                  f"{float(row['predicted_mib_per_second']):.0f} |")
    within = sum(points <= 2 for points in off)
    print(f"\nAU within 2 points in {within} of {len(off)} runs, {max(off):.1f} at the most.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stormlp", required=True, help="the executable")
    parser.add_argument("--workload", nargs="+", default=list(COMPUTE), choices=list(COMPUTE),
                        help="rows of these alone")
    args = parser.parse_args()
    chosen = "" if set(args.workload) == set(COMPUTE) else f" --workload {' '.join(args.workload)}"
    print(HEAD.format(memory=MEMORY_GIB, chosen=chosen))
    published(args)
    own()


if __name__ == "__main__":
    main()
