#!/usr/bin/env python3
"""Trains on the same files with DLIO and with `stormlp train --profile v1`, in turn.

    DLIO_PYTHON=venv/bin/python benches/compare/train_vs_dlio.py --stormlp target/release/stormlp \\
        --dir /mnt/nvme --rounds 3

The interpreter needs `dlio-benchmark` from PyPI, which is the code of v1.0. Three workloads where
neither tool nor storage is the limit: resnet50 on one H100, unet3d on one A100, cosmoflow on one
H100 with compute raised to 20 ms. Files are made once by `stormlp datagen`, read once to be warm,
and then read by both sides in turn. Prints each round, then the medians and their difference: AU
has to agree within 1 point and samples/s within 2 %. With --cold the files are dropped from the
page cache before each side, and bytes from the device have to agree within 2 %, the mean request
size within 15 %. Exit 1 when they do not.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys

WORKLOADS = {
    # name: (accelerator, DLIO's name, files, samples per file, steps an epoch, compute override)
    "resnet50": ("h100", "resnet50_h100", 34, 1251, 100, None),
    "unet3d": ("a100", "unet3d_a100", 70, 1, 10, None),
    "cosmoflow": ("h100", "cosmoflow_h100", 400, 1, 400, 0.02),
}
# unet3d needs 100 steps as the others do; 70 files are 10 steps, so it runs ten epochs.
EPOCHS = {"resnet50": 1, "unet3d": 10, "cosmoflow": 1}


def run(command, **more):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, **more)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return done, cpu


def device_counters(folder):
    """Reads completed and bytes read of the disk behind a folder; None where there is none."""
    number = os.stat(folder).st_dev
    path = os.path.realpath(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if os.path.exists(os.path.join(path, "partition")):
        path = os.path.dirname(path)
    try:
        fields = open(os.path.join(path, "stat")).read().split()
    except OSError:
        return None
    return int(fields[0]), int(fields[2]) * 512


def data_files(folder):
    for root, _, names in os.walk(os.path.join(folder, "train")):
        for name in names:
            yield os.path.join(root, name)


def warm(folder):
    for path in data_files(folder):
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass


def drop(folder):
    for path in data_files(folder):
        file = os.open(path, os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def make(args, name, folder):
    accelerator, _, files, samples, _, _ = WORKLOADS[name]
    command = [args.stormlp, "datagen", name, "--accelerator", accelerator, "--profile", "v1",
               "--data-dir", folder, "--files", str(files), "--samples-per-file", str(samples),
               "--resume"]
    done, _ = run(command)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")


def by_stormlp(args, name, folder):
    accelerator, _, files, samples, steps, compute = WORKLOADS[name]
    command = [args.stormlp, "train", name, "--accelerator", accelerator, "--profile", "v1",
               "--data-dir", folder, "--files", str(files), "--samples-per-file", str(samples),
               "--steps", str(steps), "--epochs", str(EPOCHS[name]), "--format", "json",
               "--results-dir", os.path.join(args.dir, "results"),
               "--params", "workflow.checkpoint=False"]
    if compute:
        command += ["--compute-time", str(compute)]
    done, cpu = run(command)
    if done.returncode not in (0, 6):
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    report = json.loads(done.stdout)
    return report["au_percent"]["profile"], report["samples_per_second"], cpu


def by_dlio(args, name, folder):
    _, theirs, files, samples, steps, compute = WORKLOADS[name]
    out = os.path.join(args.dir, "dlio-out")
    shutil.rmtree(out, ignore_errors=True)
    command = [args.python, "-m", "dlio_benchmark.main", f"workload={theirs}",
               f"++workload.dataset.data_folder={folder}",
               f"++workload.dataset.num_files_train={files}",
               f"++workload.dataset.num_samples_per_file={samples}",
               f"++workload.train.total_training_steps={steps}",
               f"++workload.train.epochs={EPOCHS[name]}", "++workload.workflow.checkpoint=False",
               f"hydra.run.dir={out}"]
    if compute:
        command.append(f"++workload.train.computation_time={compute}")
    # As root Open MPI wants to be asked twice, even for one process.
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "OMPI_ALLOW_RUN_AS_ROOT": "1",
           "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done, cpu = run(command, env=env)
    summary = os.path.join(out, "summary.json")
    if done.returncode != 0 or not os.path.exists(summary):
        sys.exit("DLIO failed:\n" + "\n".join((done.stdout + done.stderr).splitlines()[-12:]))
    metric = json.load(open(summary))["metric"]
    return (metric["train_au_mean_percentage"],
            metric["train_throughput_mean_samples_per_second"], cpu)


def compare(args, name):
    folder = os.path.join(args.dir, f"compare-{name}")
    make(args, name, folder)
    sides = {"dlio": by_dlio, "stormlp": by_stormlp}
    results = {side: [] for side in sides}
    for number in range(args.rounds):
        order = list(sides) if number % 2 == 0 else list(reversed(sides))
        for side in order:
            drop(folder) if args.cold else warm(folder)
            before = device_counters(folder)
            au, throughput, cpu = sides[side](args, name, folder)
            after = device_counters(folder)
            reads, read_bytes = (after[0] - before[0], after[1] - before[1]) if before else (0, 0)
            results[side].append((au, throughput, cpu, read_bytes, read_bytes / max(reads, 1)))
            print(f"{name} {side:8} AU {au:6.2f} %  {throughput:9.2f} samples/s  CPU {cpu:6.1f} s"
                  f"  device {read_bytes / 1e6:9.1f} MB in requests of"
                  f" {read_bytes / max(reads, 1) / 1024:6.1f} KiB", flush=True)
    median = {side: [statistics.median(column) for column in zip(*rows)]
              for side, rows in results.items()}
    ours, theirs = median["stormlp"], median["dlio"]
    difference = ours[0] - theirs[0]
    ratio = ours[1] / theirs[1]
    good = abs(difference) <= 1 and abs(ratio - 1) <= 0.02
    print(f"{name}: AU differs by {difference:+.2f} points (allowed 1), samples/s ratio"
          f" {ratio:.4f} (allowed 2 %), CPU ratio {ours[2] / theirs[2]:.3f}:"
          f" {'agrees' if good else 'DISAGREES'}")
    if args.cold and theirs[3]:
        byte_ratio, size_ratio = ours[3] / theirs[3], ours[4] / theirs[4]
        cold = abs(byte_ratio - 1) <= 0.02 and abs(size_ratio - 1) <= 0.15
        print(f"{name}: device bytes ratio {byte_ratio:.4f} (allowed 2 %), request size ratio"
              f" {size_ratio:.3f} (allowed 15 %): {'agrees' if cold else 'DISAGREES'}")
        good = cold
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stormlp", default="target/release/stormlp", type=os.path.abspath)
    parser.add_argument("--python", default=os.environ.get("DLIO_PYTHON", "python3"))
    parser.add_argument("--dir", default=".", type=os.path.abspath, help="folder for the datasets")
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("workload", nargs="*", default=list(WORKLOADS))
    args = parser.parse_args()
    args.python = os.path.abspath(args.python) if os.sep in args.python else args.python
    good = [compare(args, name) for name in args.workload]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
