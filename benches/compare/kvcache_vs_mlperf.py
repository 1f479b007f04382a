#!/usr/bin/env python3
"""Runs `stormlp kvcache` and the KV-cache client of MLPerf Storage v3.0 in turn on the same folder;
prints GiB/s, P95, CPU seconds a GiB and peak memory of both, and ratios with their intervals.

    benches/compare/kvcache_vs_mlperf.py --stormlp target/release/stormlp \\
        --original storage/kv_cache_benchmark/kv-cache.py --dir /mnt/nvme --duration 60 --pairs 3

The client needs Python with numpy; --python names another interpreter. Both sides have the same users,
seed, model, writes at a time and duration. GiB/s are by the client's arithmetic, from its file and
from the one that stormlp writes with its keys: all bytes, also those after the window, over the
window. CPU time and memory are the kernel's account of each process. There are no assertions: the figures
are for people to read.
"""

import argparse
import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import turns

# Key in `cache_stats`, title, unit.
FIGURES = [
    ("tier_storage_read_bandwidth_gbps", "read", "GiB/s"),
    ("tier_storage_write_bandwidth_gbps", "write", "GiB/s"),
    ("storage_read_device_p95_ms", "P95 of reading an object", "ms"),
    ("storage_write_device_p95_ms", "P95 of fsync", "ms"),
]


def measured(command):
    """Runs a command; the kernel's account of it."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            output.seek(0)
            sys.exit(f"{' '.join(command)}\nended with {process.returncode}:\n{output.read()[-4000:]}")
    return {"cpu_seconds": usage.ru_utime + usage.ru_stime, "rss": usage.ru_maxrss << 10}


def figures(path, usage):
    """The figures of a file with the client's keys, and its process's."""
    with open(path, encoding="utf-8") as file:
        stats = json.load(file)["summary"]["cache_stats"]
    gib = (stats["total_read_bytes"] + stats["total_write_bytes"]) / (1 << 30)
    return {**{key: stats.get(key) for key, _, _ in FIGURES},
            "cpu": usage["cpu_seconds"] / max(gib, 1e-9), "rss": usage["rss"]}


def ours(arguments):
    """One run of stormlp."""
    with tempfile.TemporaryDirectory() as results:
        usage = measured([
            arguments.stormlp, "kvcache", "mlperf", "--quiet", arguments.model, "--users",
            str(arguments.users), "--duration", f"{arguments.duration}s", "--tune",
            f"cpu-cache={arguments.memory}G,concurrent-writes={arguments.writes},"
            f"seed={arguments.seed}",
            "--dir", os.path.join(arguments.folder, "stormlp"),
            "--results-dir", results, "--mlperf-output", results,
            "--capacity", f"{arguments.capacity}G"])
        [path] = glob.glob(os.path.join(results, "kv_cache", "**", "kvcache_results_*.json"),
                           recursive=True)
        return figures(path, usage)


def theirs(arguments):
    """One run of the client."""
    folder = os.path.join(arguments.folder, "original")
    with tempfile.TemporaryDirectory() as results:
        path = os.path.join(results, "kvcache_results.json")
        config = ["--config", arguments.config] if arguments.config else []
        usage = measured([
            arguments.python, arguments.original, *config, "--model", arguments.model,
            "--num-users", str(arguments.users), "--duration", str(arguments.duration),
            "--gpu-mem-gb", "0", "--cpu-mem-gb", str(arguments.memory),
            "--max-concurrent-allocs", str(arguments.writes), "--generation-mode", "none",
            "--storage-capacity-gb", str(arguments.capacity),
            "--seed", str(arguments.seed), "--output", path, "--cache-dir", folder])
        shutil.rmtree(folder, ignore_errors=True)
        return figures(path, usage)


def show(title, unit, key, mine, others):
    """Medians of both sides and the ratio of the pairs."""
    if any(run[key] is None for run in mine + others):
        print(f"{title}: too few samples; use a longer --duration")
        return
    pairs = [[run[key] for run in runs] for runs in (mine, others)]
    one, other = map(statistics.median, pairs)
    print(f"{title}: stormlp {one:.3f} {unit}, original {other:.3f} {unit}, "
          f"ratio {turns.ratio(*pairs)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--stormlp", default="target/release/stormlp")
    parser.add_argument("--original", required=True, help="path of kv-cache.py")
    parser.add_argument("--config", help="its config.yaml")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--dir", default=".", help="folder on the storage to measure")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--model", default="llama3.1-8b")
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--duration", type=int, default=60, help="seconds")
    parser.add_argument("--memory", type=int, default=0, help="GiB that hold objects first")
    parser.add_argument("--writes", type=int, default=16, help="objects written at a time")
    parser.add_argument("--capacity", type=int, default=0,
                        help="GiB of objects on storage [default: 95 %% of the free space]")
    parser.add_argument("--seed", type=int, default=42)
    arguments = parser.parse_args()
    if not arguments.capacity:
        arguments.capacity = max(1, int(shutil.disk_usage(arguments.dir).free * 0.95) >> 30)
    with tempfile.TemporaryDirectory(dir=arguments.dir) as arguments.folder:
        mine, others = turns.in_turn(arguments.pairs, lambda: ours(arguments),
                                     lambda: theirs(arguments))
    for key, title, unit in FIGURES:
        show(title, unit, key, mine, others)
    show("CPU", "s a GiB", "cpu", mine, others)
    mine, others = (max(run["rss"] for run in runs) / (1 << 20) for runs in (mine, others))
    print(f"peak memory: stormlp {mine:.0f} MiB, original {others:.0f} MiB")


if __name__ == "__main__":
    main()
