#!/usr/bin/env python3
"""Limits of one host: accelerators it holds, CPU against fio's, memory and pacing.

    benches/compare/train_on_host.py --stormlp target/release/stormlp --dir /mnt/nvme

Four parts, each by its name on the command line or all of them:

  accelerators  the maximum that still reaches the threshold, warm, for unet3d, resnet50
                and cosmoflow on H100 (bracket, then bisect; the best of --rounds runs counts), with
                the share of the samples that was read ahead of AU's window
  cpu           CPU seconds for each GiB read, warm: stormlp next to fio's psync 1 MiB reads of the
                same files, in turn; and with O_DIRECT (--path cpu)
  pacing        how late this host sees compute end for 128 accelerators at 3.5 ms, AU on null
                storage, and the steps a second and CPU time of each that it has for 512 of dlrm
  memory        the largest resident set of 128 accelerators of every workload, null storage

The machine should be quiet; other programs show as the busy time that was not ours. Prints
medians and ratios against the project's figures.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys

import turns

FILES = {"unet3d": 42, "resnet50": 24, "cosmoflow": 1024}
SAMPLES = {"unet3d": 1, "resnet50": 1251, "cosmoflow": 1}
# So many that the read-ahead before the first counted step is a small part of the epoch.
STEPS = {"unet3d": 60, "resnet50": 60, "cosmoflow": 3000}
TARGET = {"unet3d": 4, "resnet50": 60, "cosmoflow": 14}
CPU_RATIO = {"unet3d": 1.25, "resnet50": 1.5, "cosmoflow": 1.25}
EVERY = ["unet3d", "resnet50", "cosmoflow", "bert", "retinanet", "flux", "dlrm"]


def run(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return done, cpu


def busy_seconds():
    """Busy time of all CPUs since boot."""
    fields = [int(field) for field in open("/proc/stat").readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def stormlp(args, *words):
    command = [args.stormlp, "train", *words, "--format", "json",
               "--results-dir", os.path.join(args.dir, "results")]
    before = busy_seconds()
    done, cpu = run(command)
    if done.returncode not in (0, 6):
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    report = json.loads(done.stdout)
    report["foreign_seconds"] = busy_seconds() - before - cpu
    return report


def folder_of(args, name):
    folder = os.path.join(args.dir, f"compare-{name}-host")
    command = [args.stormlp, "datagen", name, "--accelerator", "h100", "--dir", folder,
               "--files", str(FILES[name]), "--params", f"dataset.num_samples_per_file={SAMPLES[name]}", "--resume"]
    done, _ = run(command)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return folder


def files_of(folder):
    return sorted(os.path.join(root, name)
                  for root, _, names in os.walk(os.path.join(folder, "train")) for name in names)


def warm(folder):
    for path in files_of(folder):
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass


def links(args, name, folder, accelerators):
    """A folder with every file so often that each accelerator has enough steps."""
    batch = {"unet3d": 7, "resnet50": 400, "cosmoflow": 1}[name]
    need = -(-accelerators * batch * STEPS[name] // SAMPLES[name])
    wide = os.path.join(args.dir, f"compare-{name}-links")
    os.makedirs(os.path.join(wide, "train"), exist_ok=True)
    for old in files_of(wide):
        os.unlink(old)
    sources = files_of(folder)
    suffix = os.path.splitext(sources[0])[1]
    for number in range(need):
        target = os.path.join(wide, "train", f"img_{number:07}{suffix}")
        os.link(sources[number % len(sources)], target)
    return wide, need


def holds(args, name, folder, accelerators):
    wide, files = links(args, name, folder, accelerators)
    best = None
    for _ in range(args.rounds):
        warm(folder)
        report = stormlp(args, name, "--accelerator", "h100", "--edition", "2.0", "-n",
                         str(accelerators), "--dir", wide, "--files", str(files),
                         "--params", f"dataset.num_samples_per_file={SAMPLES[name]}", "--epochs", "2",
                         "--params", "workflow.checkpoint=False")
        au = report["au_percent"]["profile"]
        ahead = max(epoch["prefetched_share"] for epoch in report["epochs"])
        print(f"  {name} on {accelerators}: AU {au:.2f} % (nominal"
              f" {report['au_percent']['nominal']:.2f} %), read ahead {ahead:.1%}, foreign CPU"
              f" {report['foreign_seconds']:.1f} s", flush=True)
        best = max(best or 0, au)
        if report["meets_threshold"]:
            return True
    return False


def accelerators(args):
    for name in args.workloads:
        folder = folder_of(args, name)
        low, high = 0, TARGET[name]
        while holds(args, name, folder, high):
            low, high = high, high + max(1, high // 2)
        while high - low > max(1, low // 20):
            middle = (low + high) // 2
            if holds(args, name, folder, middle):
                low = middle
            else:
                high = middle
        print(f"{name}: holds {low} accelerators (wanted {TARGET[name]})")


def fio(folder):
    command = ["fio", "--name=read", "--ioengine=psync", "--rw=read", "--bs=1M", "--invalidate=0",
               "--numjobs=1", "--thread", "--output-format=json",
               "--opendir=" + os.path.join(folder, "train")]
    done, _ = run(command)
    if done.returncode != 0:
        sys.exit(f"fio failed: {done.stderr}")
    job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
    seconds = job["job_runtime"] / 1e3
    gib = job["read"]["io_bytes"] / (1 << 30)
    return (job["usr_cpu"] + job["sys_cpu"]) / 100 * seconds / gib


def cpu(args):
    for name in args.workloads:
        folder = folder_of(args, name)
        words = [name, "--accelerator", "h100", "--edition", "2.0", "--dir", folder,
                 "--files", str(FILES[name]), "--params", f"dataset.num_samples_per_file={SAMPLES[name]}",
                 "--compute-time", "1us", "--epochs", "3", "--params",
                 "workflow.checkpoint=False"]

        def cost(*more):
            report = stormlp(args, *words, *more)
            spent = report["cpu_user_seconds"] + report["cpu_system_seconds"]
            return spent / (report["bytes_read"] / (1 << 30))

        rounds = max(3, args.rounds)
        ours, theirs = turns.in_turn(rounds, cost, lambda: fio(folder), lambda: warm(folder))
        direct = [cost("--path", "cpu") for _ in range(rounds)]
        print(f"{name}: buffered {statistics.median(ours):.3f} s/GiB, fio"
              f" {statistics.median(theirs):.3f}, ratio {turns.ratio(ours, theirs)}"
              f" (wanted {CPU_RATIO[name]}); O_DIRECT {statistics.median(direct):.3f} s/GiB"
              f" (wanted 0.05)")


def pacing(args):
    report = stormlp(args, "cosmoflow", "--accelerator", "h100", "--edition", "1.0", "--storage",
                     "null", "-n", "128", "--steps", "2000", "--epochs", "1")
    late = report["latency"]["compute_overshoot_us"]
    print(f"pacing of 128 at 3.5 ms: late by {late['p50']:.0f} us at p50 (wanted 60),"
          f" {late['p99']:.0f} us at p99 (wanted 150); foreign CPU"
          f" {report['foreign_seconds']:.1f} s")
    for name, count, wanted in [("unet3d", 4, 99.5), ("resnet50", 60, 99.5),
                                ("cosmoflow", 16, 97.0)]:
        steps = {"unet3d": 20, "resnet50": 30, "cosmoflow": 2000}[name]
        report = stormlp(args, name, "--accelerator", "h100", "--path", "null", "-n",
                         str(count), "--steps", str(steps), "--epochs", "1")
        au = report["au_percent"]
        print(f"{name} on {count}, null storage: AU {au['profile']:.2f} % (nominal"
              f" {au['nominal']:.2f} %, wanted {wanted})")
    count, steps = 512, 3000
    report = stormlp(args, "dlrm", "--path", "null", "-n", str(count), "--steps", str(steps),
                     "--epochs", "1")
    au, epoch = report["au_percent"], report["epochs"][0]
    cpu_us = (epoch["cpu_user_seconds"] + epoch["cpu_system_seconds"]) / (count * steps) * 1e6
    print(f"dlrm on {count}, null storage: AU {au['nominal']:.2f} % nominal, {au['measured']:.2f} %"
          f" measured (wanted within 1); {count * steps / epoch['duration_seconds'] / 1e6:.2f} M"
          f" steps/s (1.37 are asked for), {cpu_us:.2f} us CPU each; foreign CPU"
          f" {report['foreign_seconds']:.1f} s")


def memory(args):
    for name in EVERY:
        report = stormlp(args, name, "--path", "null", "-n", "128", "--steps", "3",
                         "--epochs", "1")
        print(f"{name} on 128: {report['peak_rss_bytes'] / (1 << 20):.0f} MiB resident"
              " (wanted under 1024)")


def main():
    parts = {"accelerators": accelerators, "cpu": cpu, "pacing": pacing, "memory": memory}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stormlp", default="target/release/stormlp", type=os.path.abspath)
    parser.add_argument("--dir", default=".", type=os.path.abspath, help="folder for the datasets")
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument("--workloads", nargs="+", default=list(FILES), choices=list(FILES))
    parser.add_argument("part", nargs="*", choices=[*parts, []], default=[])
    args = parser.parse_args()
    for part in args.part or parts:
        parts[part](args)


if __name__ == "__main__":
    main()
