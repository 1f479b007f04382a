#!/usr/bin/env python3
"""How often `stormlp compare` is right about real runs: of the same work, and of a tenth less.

    benches/compare/verdicts.py --stormlp target/release/stormlp --dir /mnt/nvme --pairs 200

Runs short cells of `stormlp gds` in turn, as storage gives them and throttled to nine tenths of it,
and compares neighbours: two sides of the same work should be called different in at most 5 % of the
pairs, a throttled side regressed in at least 95 %. With --rate both sides are throttled, the one to
that rate and the other to nine tenths of it: then storage is as steady as the throttle is. With
--runs 3 a side is three runs, taken in turns.

Ctrl-C ends it at any time; what was counted until then is printed. Nothing is asserted.
"""

import argparse
import collections
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile

CELL = ("--path cpu --op read --io-size 1M --threads 2 --queue-depth 4 --file-size 256M --keep "
        "--cache as-is")


def measure(args, folder, throttle):
    """One run; the file of its report and its bytes a second."""
    command = [args.stormlp, "gds", *shlex.split(args.cell), "--dir", args.dir, "--duration",
               f"{args.seconds}s", "--format", "json", "--quiet", "--results-dir", folder]
    if throttle:
        command += ["--throttle", f"read={throttle}"]
    known = set(os.listdir(folder))
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {run.returncode}:\n{run.stderr}")
    made = set(os.listdir(folder)) - known
    rate = json.loads(run.stdout)["cells"][0]["throughput_bytes_per_second"]
    return os.path.join(folder, made.pop()), rate


def compare(args, before, now, *options):
    """What `stormlp compare` says of two sides."""
    command = [args.stormlp, "compare", "--format", "json", *options, *before, "--", *now]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {run.returncode}:\n{run.stderr}")
    return json.loads(run.stdout)


def tell(kind, counts, wanted):
    """One line of counts."""
    total = sum(counts.values())
    if total:
        hits = sum(counts[verdict] for verdict in wanted)
        verdicts = ", ".join(f"{verdict} {count}" for verdict, count in sorted(counts.items()))
        print(f"{kind}: {hits} of {total} pairs ({100 * hits / total:.1f} %) "
              f"{' or '.join(wanted)}; {verdicts}", flush=True)


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stormlp", default="target/release/stormlp")
    parser.add_argument("--dir", default="stormlp-data/verdicts", help="where the test file lies")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--runs", type=int, default=1, help="runs a side")
    parser.add_argument("--seconds", type=float, default=3, help="length of a cell")
    parser.add_argument("--rate", type=int, help="MiB/s that both sides are throttled to")
    parser.add_argument("--cell", default=CELL, help="the options of a run")
    return parser.parse_args()


def main():
    args = parse()
    same, slower = collections.Counter(), collections.Counter()
    rates, changes = [], []
    with tempfile.TemporaryDirectory() as folder:
        try:
            measure(args, folder, None)  # makes the file
            full = args.rate and f"{args.rate}MiB"
            tenth = args.rate and f"{int(args.rate * 0.9 * 1024)}KiB"
            if not args.rate:
                level = statistics.median(measure(args, folder, None)[1] for _ in range(5))
                tenth = str(int(0.9 * level))
            last = None
            for _ in range(args.pairs):
                now, throttled = [], []
                for _ in range(args.runs):
                    now.append(measure(args, folder, full))
                    throttled.append(measure(args, folder, tenth))
                rates += [rate for _, rate in now]
                now = [file for file, _ in now]
                if last:
                    same[compare(args, last, now)["verdict"]] += 1
                told = compare(args, now, [file for file, _ in throttled], "--force")
                slower[told["verdict"]] += 1
                changes.append(told["figures"][0]["change_percent"])
                last = now
        except KeyboardInterrupt:
            print("stopped", flush=True)
    tell("the same work", same, ["improved", "regressed"])
    tell("a tenth less", slower, ["regressed"])
    if len(rates) > 1:
        mean = statistics.mean(rates)
        print(f"rate {mean / (1 << 20):.0f} MiB/s, from run to run "
              f"{100 * statistics.stdev(rates) / mean:.2f} %; the throttled runs had "
              f"{statistics.median(changes):.1f} %")


if __name__ == "__main__":
    main()
