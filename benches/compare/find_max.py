#!/usr/bin/env python3
"""Whether `stormlp train --find-max` finds the right answer, and the cost of finding it.

    cargo build --release
    python3 benches/compare/find_max.py            20 trials, some 25 minutes

Each trial holds storage back to a bandwidth that feeds a known number of accelerators. With N of them
the storage is always busy, so that AU is bandwidth / demand, and the largest N that meets the
threshold is floor(bandwidth / (demand of one x threshold)). The bandwidth is chosen so that the true
value lies half-way between two counts: both neighbours are missed by the same margin.

It prints for each trial the true answer, the answer, the probes and how many they may be, the time of
the probes against stepping from 1, which is one full run for each count up to the first that
misses. Exit code 1 when an answer is wrong, or a bound is broken.
"""

import argparse
import json
import math
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

SAMPLE_BYTES = 64 << 10
BATCH = 2
THRESHOLD = 0.6
# Batches that are read ahead are free for an epoch: over fewer steps AU would be above what the
# bandwidth gives, by more than the way from one count to the next.
STEPS = 150


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stormlp", default="target/release/stormlp", type=pathlib.Path)
    parser.add_argument("--trials", default=20, type=int)
    parser.add_argument("--most", default=24, type=int, help="the largest true answer")
    parser.add_argument("--compute", default=0.1, type=float, help="seconds of a step")
    parser.add_argument("--seed", default=1, type=int)
    parser.add_argument("--dir", default=".", type=pathlib.Path, help="where the dataset is made")
    parser.add_argument("--keep", action="store_true", help="keep the reports")
    return parser.parse_args()


def answers(most, trials, seed):
    """As many small as large ones: 1, 2, 3 and then anything up to the largest."""
    draw = random.Random(seed)
    small = [1, 2, 3][: max(1, trials // 5)]
    rest = [draw.randint(4, most) if most >= 4 else most for _ in range(trials - len(small))]
    return (small + sorted(rest))[:trials]


def files_for(accelerators):
    """Training files for so many steps of two accelerators more."""
    return STEPS * BATCH * (accelerators + 2)


def command(options, place, bandwidth, folder, files):
    """One search at a bandwidth."""
    params = [
        f"dataset.record_length_bytes={SAMPLE_BYTES}",
        "dataset.record_length_bytes_stdev=0",
        "reader.read_threads=1",
        "reader.prefetch_size=2",
        f"metric.au={THRESHOLD}",
        "workflow.checkpoint=False",
    ]
    words = ["train", "unet3d", "--find-max", "--dir", f"data-{files}", "--generate"]
    words += ["--files", files, "--params", f"reader.batch_size={BATCH}", "--compute-time", f"{options.compute}s"]
    words += ["--epochs", 1, "--throttle", f"read={bandwidth}B", "--format", "json"]
    words += ["--results-dir", folder, *(word for param in params for word in ("--params", param))]
    return [options.stormlp.resolve(), *words]


def search(options, place, bandwidth, files):
    """The report of a search, and how long it took."""
    folder = place / "results"
    words = [str(word) for word in command(options, place, bandwidth, folder, files)]
    begun = time.monotonic()
    done = subprocess.run(words, cwd=place, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - begun
    if done.returncode not in (0, 6):
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout), seconds


def bytes_of_file(options, place):
    """The time to read a file of the dataset: framing comes on top of the sample, and np.load reads
    the first 4096 bytes twice and 188 bytes at the end once more."""
    words = [options.stormlp.resolve(), "datagen", "unet3d", "--dir", "one", "--files", "1", "--params",
             f"dataset.record_length_bytes={SAMPLE_BYTES}", "--params", "dataset.record_length_bytes_stdev=0"]
    subprocess.run([str(word) for word in words], cwd=place, capture_output=True, check=True)
    return max(file.stat().st_size for file in (place / "one").rglob("*.npz")) + 4096 + 188


def stepping_seconds(find, true):
    """The time of one full run for each count up to the first that misses: each as long as the full
    runs that were made, by their steps."""
    full = [run for run in find["tried"] if run["run"] == "full"]
    mean = sum(run["seconds"] for run in full) / max(len(full), 1)
    # The samples are shared by the accelerators, so that fewer of them need longer; below the answer
    # AU is near 100 %.
    least = [max(true, 1) / count * THRESHOLD * mean for count in range(1, true)]
    return sum(least) + 2 * mean


def judged(options, place, true, each):
    """One trial as a row, and whether all of it is as it should be."""
    demand = BATCH * each / options.compute
    bandwidth = int(demand * THRESHOLD * (true + 0.5))
    report, seconds = search(options, place, bandwidth, files_for(true))
    find = report["find_max"]
    probes = [run for run in find["tried"] if run["run"] == "probe"]
    allowed = math.ceil(math.log2(true)) + 4
    spent = sum(run["seconds"] for run in probes)
    stepping = stepping_seconds(find, true)
    right = find["largest"] == true and not find["is_lower_bound"]
    sound = right and len(probes) <= allowed
    cheap = spent <= stepping / 4
    print(
        f"{true:5} {find['largest']:7} {'yes' if right else 'NO':>6} "
        f"{len(probes):4} of {allowed:2} {spent:9.1f} {stepping:10.1f} "
        f"{spent / stepping:6.2f} {seconds:8.1f}  {find['limited_by']}",
        flush=True,
    )
    return right, sound, cheap


def main():
    options = arguments()
    place = pathlib.Path(tempfile.mkdtemp(prefix="find-max-", dir=options.dir))
    rows = []
    try:
        each = bytes_of_file(options, place)
        print(f"{each:.0f} bytes read of a file, {STEPS} steps or more, AU of {THRESHOLD:.0%} is asked for")
        print(" true  answer  right    probes  probes s stepping s  share  whole s  limited by")
        for true in answers(options.most, options.trials, options.seed):
            rows.append(judged(options, place, true, each))
            for data in place.glob("data-*"):
                shutil.rmtree(data)
    except KeyboardInterrupt:
        print("stopped", flush=True)
    finally:
        if not options.keep:
            shutil.rmtree(place, ignore_errors=True)
    right, sound, cheap = (sum(column) for column in zip(*rows)) if rows else (0, 0, 0)
    print(f"{right} of {len(rows)} answers are right, {sound} with no more probes than allowed, "
          f"{cheap} with probes of at most a quarter of the time of stepping")
    sys.exit(0 if rows and sound == cheap == len(rows) else 1)


if __name__ == "__main__":
    main()
