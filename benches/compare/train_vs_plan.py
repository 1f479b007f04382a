#!/usr/bin/env python3
"""Holds `stormlp plan` against real runs of `stormlp train` on storage throttled to known figures.

    benches/compare/train_vs_plan.py --stormlp target/release/stormlp --dir /mnt/nvme \\
        --csv benches/validation/own.csv

Each run reads a small dataset through a gate of so many bytes a second and so much latency, and is
predicted from the same two figures, except for the latency that this host's timers add: the median
that `stormlp gds` finds for single reads through the same gate. The dataset must fit the page cache, so that the gate is what
limits; the machine must be otherwise idle. The rows go to stdout, and to the file that
benches/compare/validation.py reads.
"""

import argparse
import csv
import json
import os
import subprocess
import sys

# Workload, options that make it small, and the throttles that it meets. Demand of one accelerator:
# unet3d 350 MB/s, resnet50 183 MB/s, cosmoflow 141 MB/s.
CASES = [
    ("unet3d", ["--compute-time", "40ms", "--params", "reader.batch_size=7"],
     ["dataset.record_length_bytes=2000000", "dataset.record_length_bytes_stdev=300000"],
     ["read=600MB/s,latency=500us", "read=300MB/s,latency=2ms"]),
    ("resnet50", ["--compute-time", "20ms", "--params", "reader.batch_size=32"],
     ["dataset.num_samples_per_file=64"],
     ["read=400MB/s,latency=500us", "read=160MB/s,latency=2ms"]),
    ("cosmoflow", ["--compute-time", "20ms"],
     ["dataset.record_length_bytes_stdev=0"],
     ["read=300MB/s,latency=500us", "read=110MB/s,latency=2ms"]),
]
READ_AHEAD_BATCHES = 20
STEPS = 50
FIELDS = ["workload", "storage", "accelerators", "predicted_au_percent", "measured_au_percent",
          "predicted_mib_per_second", "measured_mib_per_second"]


def stormlp(program, *words, cwd=None):
    """The JSON that a command prints. A run that misses its threshold ends with 6."""
    done = subprocess.run([program, *words, "--format", "json", "--quiet"], capture_output=True,
                          text=True, cwd=cwd)
    if done.returncode not in (0, 6):
        sys.exit(f"{' '.join(words)}\n{done.stderr}")
    return json.loads(done.stdout)


def as_it_is(args, throttle):
    """The throttle with the latency that a single read of 128 KiB really has."""
    bandwidth, latency = throttle.split(",")
    run = stormlp(args.stormlp, "gds", "--path", "buffered", "--op", "read", "--io-size", "128K",
                  "--threads", "1", "--queue-depth", "1", "--file-size", "64M", "--duration", "2s",
                  "--dir", os.path.join(args.dir, "train-vs-plan-gate"), "--throttle", latency,
                  "--results-dir", os.path.join(args.dir, "train-vs-plan-results"))
    return f"{bandwidth},latency={run['cells'][0]['latency_us']['p50']:.0f}us"


def files_for(workload, options, samples_per_file, accelerators, steps):
    """Training files for so many steps of so many accelerators. More than that many batches are
    read ahead at no time, so that no run comes to the end of its files and has storage to itself."""
    batch = next((int(one.split("=")[1]) for one in options if one.startswith("reader.batch_size=")), 1)
    return -(-(steps + READ_AHEAD_BATCHES) * accelerators * batch // samples_per_file)


def repeated(params):
    """Each with its option."""
    return [word for param in params for word in ("--params", param)]


def measured(args, case, throttle, accelerators):
    workload, options, params, _ = case
    per_file = 64 if workload == "resnet50" else 1
    files = files_for(workload, options, per_file, max(args.accelerators), args.steps)
    folder = os.path.join(args.dir, f"train-vs-plan-{workload}")
    words = ["train", workload, *options, "-n", str(accelerators), "--epochs", "2", "--steps",
             str(args.steps), "--dir", folder, "--files", str(files), "--generate",
             "--results-dir", os.path.join(args.dir, "train-vs-plan-results"),
             *repeated(params), "--params", f"dataset.num_files_train={files}"]
    return stormlp(args.stormlp, *words, "--throttle", throttle)


def predicted(args, case, throttle, accelerators, steps=STEPS):
    workload, options, params, _ = case
    words = ["plan", workload, *options, "-n", str(accelerators), "--epochs", "2", "--steps",
             str(steps), "--host", "memory=1MiB",
             # The gate is above the kernel's read-ahead: reads reach it as they are made.
             "--storage", f"{throttle},readahead=0", *repeated(params)]
    return stormlp(args.stormlp, *words)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stormlp", required=True, help="the executable, a release build")
    parser.add_argument("--dir", required=True, help="a folder for about 2 GB of data")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--accelerators", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--csv", help="write the rows to this file")
    args = parser.parse_args()
    args.stormlp = os.path.abspath(args.stormlp)
    rows = []
    print("| workload | storage | N | AU predicted | AU measured | points | MiB/s predicted | "
          "MiB/s measured | error |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|")
    for case in CASES:
        for throttle in case[3]:
            real = as_it_is(args, throttle)
            for count in args.accelerators:
                run, plan = measured(args, case, throttle, count), predicted(args, case, real, count, args.steps)
                au = run["au_percent"]
                au = au["profile"] if isinstance(au, dict) else au
                values = [case[0], real, count, plan["au_percent"], au, plan["mib_per_second"],
                          run["mib_per_second"]]
                rows.append(dict(zip(FIELDS, values)))
                print(f"| {case[0]} | {real} | {count} | {values[3]:.1f} | {au:.1f} | "
                      f"{values[3] - au:+.1f} | {values[5]:.0f} | {values[6]:.0f} | "
                      f"{100 * (values[5] / values[6] - 1):+.1f} % |", flush=True)
    worst = max(abs(row["predicted_au_percent"] - row["measured_au_percent"]) for row in rows)
    print(f"\nAU was predicted to within {worst:.1f} points in {len(rows)} runs.")
    if args.csv:
        with open(args.csv, "w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
