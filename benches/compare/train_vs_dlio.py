#!/usr/bin/env python3
"""Trains on the same files with DLIO and with `stormlp train`, in turn.

    DLIO_PYTHON=venv/bin/python benches/compare/train_vs_dlio.py --stormlp target/release/stormlp \\
        --dir /mnt/nvme --rounds 3

The interpreter needs `dlio-benchmark` from PyPI, which is the code of v1.0; --dlio-source names a
checked-out tree of DLIO instead, and --profile says which edition that is. Three workloads where
storage is not the limit: resnet50 on one H100, unet3d on one A100, cosmoflow on one H100 with
compute raised to 20 ms (--cosmoflow-compute); and where they are named, unet3d on files of HDF5
(`hdf5`, the interpreter needs h5py) and on tables of text (`csv`). Files are made once by `stormlp datagen`, read once
to be warm, and then read by both sides in turn; hard links make them as many as the steps need.
Prints each round, then the medians and their difference: AU has to agree within 1 point and
samples/s within 2 %.

Where DLIO's work for each step is a visible part of it, the two cannot agree. --ceiling shows
how much that is: both sides run the same steps over records of 1 KiB, so that hardly anything is
read, and the loss of each below its ceiling by reading the real files has to agree instead.

With --cold the files are dropped from the page cache before each side, each file is there once,
and bytes from the device have to agree within 2 %, the mean request size within 15 %. DLIO's
libraries are read from a disk, too: let --dir be on a separate device (a loop device will do).

--read-iops and --read-mbs limit the device behind --dir by a control group that both sides run in
(root, and the kernel's I/O controller), --latency-ms delays every request of a FUSE file system over
it (slow_fs.py), --read-ahead sets the read-ahead; all imply --cold. Then AU has to agree within 3
points, device bytes within 2 %, the mean request size within 10 %. That is the size before the kernel
merges requests: a limit holds them back and lets them out by the dozen every 100 ms, and which of
them then lie next to each other depends on other waiting requests.

--client-overhead FILE was saved by `stormlp calibrate-dlio` on this host, and has stormlp add it: its prediction
has to agree within 1 point, or within 3 where storage is limited.

--kinds runs eight kinds of work, each with a different limit (KINDS below lists them), by --client-overhead FILE
under v2. AU has to agree within 3 points, device bytes within 1 %, requests that reach the device after
merging within 5 %. The CPUs limit DLIO in the client's: leave the host idle.

A few steps say little: which of the first files comes first moves AU by several points. --files and
--record-bytes make more of them, smaller, where the disk has no room for more of the real size.
Exit 1 when they do not agree.
"""

import argparse
import contextlib
import json
import operator
import os
import resource
import shutil
import statistics
import subprocess
import sys

import slow_storage


class Workload:
    """The work of both sides: `files` different ones, each `links` times unless cold. `base` is the
    workload of theirs that it is, on data of another `format` with records of so many bytes."""

    def __init__(self, accelerator, files, links, samples, batch, compute=None, base=None,
                 format=None, record_bytes=None):
        self.accelerator, self.files, self.links = accelerator, files, links
        self.samples, self.batch, self.compute = samples, batch, compute
        self.base, self.format, self.record_bytes = base, format, record_bytes

    def seen(self, cold):
        return self.files if cold else self.files * self.links

    def steps(self, cold):
        return self.seen(cold) * self.samples // self.batch


WORKLOADS = {
    "resnet50": Workload("h100", 34, 2, 1251, 400),
    "unet3d": Workload("a100", 70, 24, 1, 7),
    "cosmoflow": Workload("h100", 400, 2, 1, 1, 0.02),
    "hdf5": Workload("a100", 28, 1, 16, 7, 0.1, "unet3d", "hdf5", 1 << 20),
    # pandas parses the whole file for each sample of it, some 20 us for each of its columns.
    "csv": Workload("a100", 28, 1, 32, 7, 0.5, "unet3d", "csv", 1 << 10),
}
DEFAULT = ["resnet50", "unet3d", "cosmoflow"]

# Name: workload, seconds of a step, requests/s, MB/s, ms of each request. Three formats; the last two
# are not limited, so that the client is.
KINDS = {
    "npz, bandwidth": ("npz", 0.3, 0, 60, 0),
    "npz, requests": ("npz", 0.3, 120, 0, 0),
    "tfrecord, bandwidth": ("tfrecord", 0.02, 0, 60, 0),
    "tfrecord, requests": ("tfrecord", 0.02, 100, 0, 0),
    "hdf5, bandwidth": ("hdf5", 0.15, 0, 30, 0),
    "hdf5, latency": ("hdf5", 0.15, 0, 0, 20),
    "tfrecord, client": ("tfrecord", 0.0035, 0, 0, 0),
    "hdf5, client": ("hdf5", 0.03, 0, 0, 0),
}
# 1.3 GB of each: smaller files than the workloads', so that there are enough steps.
WORKLOADS |= {
    "npz": Workload("h100", 210, 1, 1, 7, None, "unet3d", "npz", 6 << 20),
    "tfrecord": Workload("h100", 400, 1, 1, 1, None, "cosmoflow", "tfrecord", 2828486),
}


def run(command, group=None, **more):
    """Runs a command, in a control group if one is given; its output and its CPU seconds."""
    if group:
        more["preexec_fn"] = lambda: slow_storage.join(group)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, **more)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return done, cpu


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
    slow_storage.compact_memory()


def data_keys(workload, record_bytes):
    """Keys of the data where it is not as the base has it; the names are DLIO v1.0's and later's."""
    keys = {"dataset.format": workload.format} if workload.format else {}
    if record_bytes:
        keys |= {"dataset.record_length": record_bytes, "dataset.record_length_stdev": 0}
    return keys


def stormlp_params(workload, record_bytes):
    keys = {**data_keys(workload, record_bytes or workload.record_bytes),
            "workflow.checkpoint": False}
    return [word for key, value in keys.items() for word in ("--params", f"{key}={value}")]


def make(args, name, record_bytes=None):
    """The folder of a workload's files, as the profile makes them or with records of one size."""
    workload, record_bytes = WORKLOADS[name], record_bytes or args.record_bytes
    suffix = f"-{record_bytes}" if record_bytes else ""
    folder = os.path.join(args.dir, f"compare-{name}{suffix}")
    command = [args.stormlp, "datagen", workload.base or name, "--accelerator",
               workload.accelerator, "--edition", "1.0", "--dir", folder, "--files",
               str(workload.files), "--params", f"dataset.num_samples_per_file={workload.samples}", "--resume",
               *stormlp_params(workload, record_bytes)]
    done, _ = run(command)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return folder if args.cold else linked(folder, workload)


def linked(folder, workload):
    """A neighbouring folder with every file `links` times."""
    wide = folder + "-links"
    shutil.rmtree(wide, ignore_errors=True)
    for part in ("train", "valid"):  # DLIO wants both
        os.makedirs(os.path.join(wide, part))
    sources = sorted(data_files(folder))
    suffix = os.path.splitext(sources[0])[1]
    for number in range(workload.seen(False)):
        target = os.path.join(wide, "train", f"img_{number:07}{suffix}")
        os.link(sources[number % len(sources)], target)
    return wide


def steps(args, name):
    return WORKLOADS[name].steps(args.cold) // args.accelerators


def stormlp_command(args, name, folder):
    workload = WORKLOADS[name]
    command = [args.stormlp, "train", workload.base or name, "--accelerator",
               workload.accelerator, "--edition", {"v1": "1.0", "v2": "2.0"}[args.profile], "--accelerators",
               str(args.accelerators), "--dir", folder, "--files",
               str(workload.seen(args.cold)), "--params", f"dataset.num_samples_per_file={workload.samples}",
               "--steps", str(steps(args, name)), "--epochs", "1", "--format", "json",
               *(["--client-overhead", args.client_overhead] if args.client_overhead else []), *stormlp_params(workload, None)]
    compute = args.compute or workload.compute
    return command + (["--compute-time", str(compute)] if compute else [])


def by_stormlp(args, name, folder):
    command = stormlp_command(args, name, folder)
    command += ["--results-dir", os.path.join(args.dir, "results")]
    done, cpu = run(command, args.group)
    if done.returncode not in (0, 6):
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    report = json.loads(done.stdout)
    return report["au_percent"]["profile"], report["samples_per_second"], cpu


def by_dlio(args, name, folder):
    workload = WORKLOADS[name]
    out = os.path.join(args.dir, "dlio-out")
    shutil.rmtree(out, ignore_errors=True)
    command = [args.python, "-m", "dlio_benchmark.main",
               f"workload={workload.base or name}_{workload.accelerator}",
               f"++workload.dataset.data_folder={folder}",
               f"++workload.dataset.num_files_train={workload.seen(args.cold)}",
               f"++workload.dataset.num_samples_per_file={workload.samples}",
               f"++workload.train.total_training_steps={steps(args, name)}",
               "++workload.train.epochs=1", "++workload.workflow.checkpoint=False",
               f"hydra.run.dir={out}"]
    # v2.0 has the old names of sizes too, but prefers the new ones.
    bytes_key = "record_length_bytes" if args.profile == "v2" else "record_length"
    for key, value in data_keys(workload, workload.record_bytes).items():
        command.append(f"++workload.{key.replace('record_length', bytes_key)}={value}")
    compute = args.compute or workload.compute
    if compute:
        command.append(f"++workload.train.computation_time={compute}")
    if args.accelerators > 1:
        command = ["mpirun", "-n", str(args.accelerators), "--oversubscribe", *command]
    # As root Open MPI wants to be asked twice, even for one process.
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "OMPI_ALLOW_RUN_AS_ROOT": "1",
           "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    if args.dlio_source:
        env["PYTHONPATH"] = args.dlio_source
    done, cpu = run(command, args.group, env=env)
    summary = os.path.join(out, "summary.json")
    if done.returncode != 0 or not os.path.exists(summary):
        sys.exit("DLIO failed:\n" + "\n".join((done.stdout + done.stderr).splitlines()[-12:]))
    metric = json.load(open(summary))["metric"]
    return (metric["train_au_mean_percentage"],
            metric["train_throughput_mean_samples_per_second"], cpu)


SIDES = {"dlio": by_dlio, "stormlp": by_stormlp}


def medians(args, name, folder, label):
    """Runs both sides in turn; of each the medians of the side's and the device's figures."""
    results = {side: [] for side in SIDES}
    for number in range(args.rounds):
        order = list(SIDES) if number % 2 == 0 else list(reversed(SIDES))
        for side in order:
            drop(folder) if args.cold else warm(folder)
            before = args.counters(folder)
            au, throughput, cpu = SIDES[side](args, name, folder)
            after = args.counters(folder)
            reads, read_bytes, merged = map(operator.sub, after, before) if before else (0, 0, 0)
            asked = read_bytes / max(reads + merged, 1)
            results[side].append((au, throughput, cpu, read_bytes, asked, reads))
            print(f"{label} {side:8} AU {au:6.2f} %  {throughput:9.2f} samples/s  CPU {cpu:6.1f} s"
                  f"  device {read_bytes / 1e6:9.1f} MB in requests of"
                  f" {asked / 1024:6.1f} KiB, merged {read_bytes / max(reads, 1) / 1024:6.1f} KiB",
                  flush=True)
    return {side: [statistics.median(column) for column in zip(*rows)]
            for side, rows in results.items()}


def verdict(good):
    return "agrees" if good else "DISAGREES"


def compare_warm(args, name, median):
    ours, theirs = median["stormlp"], median["dlio"]
    difference = ours[0] - theirs[0]
    ratio = ours[1] / theirs[1]
    good = abs(difference) <= 1 and abs(ratio - 1) <= 0.02
    print(f"{name}: {WORKLOADS[name].steps(False)} steps, AU differs by {difference:+.2f} points"
          f" (allowed 1), samples/s ratio {ratio:.4f} (allowed 2 %), CPU ratio"
          f" {ours[2] / theirs[2]:.3f}: {verdict(good)}")
    if not args.ceiling:
        return good
    ceiling = medians(args, name, make(args, name, 1024), f"{name} (1 KiB records)")
    lost = {side: ceiling[side][0] - median[side][0] for side in SIDES}
    good = abs(lost["stormlp"] - lost["dlio"]) <= 1
    print(f"{name}: ceilings {ceiling['dlio'][0]:.2f} % (DLIO) and {ceiling['stormlp'][0]:.2f} %"
          f" (stormlp); lost below them {lost['dlio']:+.2f} and {lost['stormlp']:+.2f} points"
          f" (allowed 1 apart): {verdict(good)}")
    return good


def compare_cold(args, name, median):
    ours, theirs = median["stormlp"], median["dlio"]
    if not theirs[3]:
        sys.exit(f"{name}: no device read anything; --dir has to be on a disk")
    byte_ratio, size_ratio = ours[3] / theirs[3], ours[4] / theirs[4]
    points, allowed = ours[0] - theirs[0], 0.10 if args.is_limited else 0.15
    good = abs(byte_ratio - 1) <= 0.02 and abs(size_ratio - 1) <= allowed
    if args.is_limited:
        good = good and abs(points) <= 3
    print(f"{name}: AU differs by {points:+.2f} points (allowed {3 if args.is_limited else 'any'}),"
          f" device bytes ratio {byte_ratio:.4f} (allowed 2 %), request size ratio"
          f" {size_ratio:.3f} (allowed {allowed * 100:.0f} %): {verdict(good)}")
    return good


def of_kind(args, kind):
    name, args.compute, args.read_iops, args.read_mbs, args.latency_ms = KINDS[kind]
    args.cold = args.is_limited = True
    median = compare(args, name)
    ours, theirs = median["stormlp"], median["dlio"]
    points, of_bytes, of_requests = ours[0] - theirs[0], ours[3] / theirs[3], ours[5] / theirs[5]
    good = abs(points) <= 3 and abs(of_bytes - 1) <= 0.01 and abs(of_requests - 1) <= 0.05
    load = os.getloadavg()[0]
    print(f"| {kind} | {theirs[0]:.1f} | {ours[0]:.1f} | {points:+.1f} | {of_bytes:.4f} |"
          f" {theirs[5]:.0f} | {ours[5]:.0f} | {of_requests:.3f} | load {load:.1f}, {verdict(good)}",
          flush=True)
    return good


def compare(args, name):
    folder = make(args, name)
    args.group, args.counters = None, slow_storage.device_counters
    with contextlib.ExitStack() as stack:
        if args.latency_ms:
            slow = slow_storage.delayed(args.dir, args.latency_ms, args.python)
            mount_point, args.counters = stack.enter_context(slow)
            warm(folder)
            folder = os.path.join(mount_point, os.path.basename(folder))
        if args.read_ahead:
            stack.enter_context(slow_storage.read_ahead(folder, args.read_ahead))
        if args.read_iops or args.read_mbs:
            limits = slow_storage.limited(folder, args.read_iops, args.read_mbs * 1_000_000)
            args.group = stack.enter_context(limits)
        median = medians(args, name, folder, name)
    if args.kinds:
        return median
    return compare_cold(args, name, median) if args.cold else compare_warm(args, name, median)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stormlp", default="target/release/stormlp", type=os.path.abspath)
    parser.add_argument("--python", default=os.environ.get("DLIO_PYTHON", "python3"))
    parser.add_argument("--dir", default=".", type=os.path.abspath, help="folder for the datasets")
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument("--dlio-source", type=os.path.abspath, help="a tree of DLIO's")
    parser.add_argument("--profile", default="v1", choices=["v1", "v2"])
    parser.add_argument("--accelerators", default=1, type=int)
    parser.add_argument("--compute", type=float, help="seconds of a step, of all workloads")
    parser.add_argument("--read-iops", default=0, type=int, help="requests/s of the device")
    parser.add_argument("--read-mbs", default=0, type=int, help="MB/s of the device")
    parser.add_argument("--latency-ms", default=0, type=float, help="of each request")
    parser.add_argument("--read-ahead", type=int, help="KiB")
    parser.add_argument("--files", type=int, help="different files, of all workloads")
    parser.add_argument("--record-bytes", type=int, help="of a sample, all of one size")
    parser.add_argument("--client-overhead", type=os.path.abspath, help="a saved calibration")
    parser.add_argument("--kinds", action="store_true", help="eight kinds of work")
    parser.add_argument("--only", action="append", choices=KINDS, help="one of the kinds")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--ceiling", action="store_true")
    parser.add_argument("--cosmoflow-compute", default=0.02, type=float, help="seconds")
    parser.add_argument("workload", nargs="*", default=DEFAULT)
    args = parser.parse_args()
    args.python = os.path.abspath(args.python) if os.sep in args.python else args.python
    WORKLOADS["cosmoflow"].compute = args.cosmoflow_compute
    for workload in WORKLOADS.values():
        workload.files = args.files or workload.files
    if args.kinds:
        sys.exit(0 if all([of_kind(args, kind) for kind in args.only or KINDS]) else 1)
    args.is_limited = bool(args.read_iops or args.read_mbs or args.latency_ms)
    args.cold = args.cold or args.is_limited or bool(args.read_ahead)
    good = [compare(args, name) for name in args.workload]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
