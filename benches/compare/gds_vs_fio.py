#!/usr/bin/env python3
"""Runs `stormlp gds` and fio in turn on one file and prints medians and ratios with their intervals.

    benches/compare/gds_vs_fio.py --stormlp target/release/stormlp --dir /mnt/nvme --pairs 5

Both sides read the same file in the same minute, in blocks of turns (turns.py), so that a noisy disk
or neighbour disturbs both alike. CPU per I/O is each side's user and system time over its measured
run. There are no assertions: the figures are for people to read.

The pages under the buffers decide more than the program: so direct reads are compared at equal
pages, once small and once huge. fio gets transparent huge pages from glibc. What each side really got
is read from the kernel, and said.

Cold reads through the page cache spread most, whoever makes them: nearly all of their CPU time is the
kernel's copy out of pages that were just filled, and in a guest these may first have to be given
back by its host. The file is read once and dropped before each side, so --size decides their length.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import turns


def huge_kib(pid):
    """KiB on transparent huge pages of a process and its children, as the kernel counts them."""
    total = 0
    try:
        with open(f"/proc/{pid}/smaps_rollup") as rollup:
            for line in rollup:
                if line.startswith(("AnonHugePages:", "ShmemPmdMapped:")):
                    total += int(line.split()[1])
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            total += sum(huge_kib(child) for child in children.read().split())
    except (OSError, ValueError):
        pass
    return total


def fio(file, size, seconds, *options, pages="small"):
    """One fio job, of so many seconds or once over the file; IOPS, bytes/s, CPU microseconds per I/O,
    and the pages under its memory."""
    length = ["--time_based", f"--runtime={seconds}"] if seconds else []
    command = ["fio", "--name=x", f"--filename={file}", f"--size={size}", *length,
               "--randrepeat=0", "--norandommap", "--group_reporting", "--output-format=json",
               *options]
    with tempfile.TemporaryFile() as out:
        run = subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE,
                               env=turns.environment(pages))
        time.sleep(seconds / 2 if seconds else 0.5)
        kib = huge_kib(run.pid)
        told = run.communicate()[1]
        if run.returncode != 0:
            sys.exit(f"{' '.join(command)}\nended with {run.returncode}:\n{told.decode()}")
        out.seek(0)
        job = json.load(out)["jobs"][0]
    read = job["read"]
    cpu_seconds = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1000
    return {"iops": read["iops"], "bytes": read["bw_bytes"],
            "cpu_us": cpu_seconds * 1e6 / max(read["total_ios"], 1),
            "pages": f"{kib >> 10} MiB on huge pages"}


def stormlp(binary, cpu, *options):
    """One cell; IOPS, bytes/s, CPU microseconds per I/O, and the pages under its buffers."""
    pin = ["taskset", "-c", str(cpu)] if cpu is not None else []
    with tempfile.TemporaryDirectory() as results:
        command = [*pin, binary, "gds", "--format", "json", "--results-dir", results, *options]
        run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {run.returncode}:\n{run.stderr}")
    cell = json.loads(run.stdout)["cells"][0]
    cpu_seconds = cell["cpu_user_seconds"] + cell["cpu_system_seconds"]
    return {"iops": cell["iops"], "bytes": cell["throughput_bytes_per_second"],
            "cpu_us": cpu_seconds * 1e6 / cell["operations"], "pages": cell["buffers_backing"]}


def warm(file):
    """Reads the file once, right before a measurement: idle page cache is reclaimed."""
    with open(file, "rb", buffering=0) as f:
        while f.read(1 << 20):
            pass


def drop(file):
    """Drops the file from the page cache, whatever is dirty of it written before."""
    descriptor = os.open(file, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def compare(title, pairs, ours, theirs, before=None, name="fio"):
    """Runs both sides in turn and prints a block of medians and ratios."""
    mine, others = turns.in_turn(pairs, ours, theirs, before)
    seen = [sorted({run["pages"] for run in runs}) for runs in (mine, others)]
    print(f"\n{title}\n  {'pages':>15}: stormlp {', '.join(seen[0])}; {name} {', '.join(seen[1])}")
    for key, unit, scale in (("iops", "IOPS", 1), ("bytes", "MiB/s", 1 << 20),
                             ("cpu_us", "us CPU per I/O", 1)):
        a = [run[key] / scale for run in mine]
        b = [run[key] / scale for run in others]
        print(f"  {unit:>15}: stormlp {statistics.median(a):>12.2f}   "
              f"{name} {statistics.median(b):>12.2f}   ratio {turns.ratio(a, b)}", flush=True)


def ring_loop(args, block_bytes, depth):
    """The same reads by a bare ring: the upper limit of any program."""
    def once():
        command = ["taskset", "-c", "0", args.ring_loop, args.file, str(block_bytes), str(depth),
                   str(depth // 2), str(args.seconds)]
        iops, cpu_us = map(float, subprocess.check_output(command, text=True).split())
        return {"iops": iops, "bytes": iops * block_bytes, "cpu_us": cpu_us, "pages": "small pages"}
    return once


def null_ceiling(args):
    """The harness alone: transfers per second on one core, latencies recorded."""
    for depth in (1, 32):
        options = ["--path", "null", "--op", "randread", "--io-size", "4K", "--threads", "1",
                   "--queue-depth", str(depth), "--duration", str(args.seconds),
                   "--file", args.file, "--cache", "as-is"]
        null = ["--ioengine=null", "--bs=4k", "--rw=randread", f"--iodepth={depth}"]
        mine, others = turns.in_turn(
            args.pairs, lambda: stormlp(args.stormlp, 0, *options)["iops"] / 1e6,
            lambda: fio(args.file, args.size, args.seconds, *null)["iops"] / 1e6)
        print(f"\nnull path, depth {depth}: stormlp {statistics.median(mine):.1f} M/s, fio's null "
              f"engine {statistics.median(others):.1f} M/s, ratio {turns.ratio(mine, others)}",
              flush=True)


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stormlp", default="target/release/stormlp")
    parser.add_argument("--ring-loop", help="target/release/examples/ring_loop, to compare with it "
                        "too (cargo build --release -p stormlp-transfer --example ring_loop)")
    parser.add_argument("--dir", default=".", help="where the test file lies or is made")
    parser.add_argument("--size", default="4g", help="size of the file, if it is made")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3, help="length of one run")
    parser.add_argument("--only", default="", help="only comparisons with these words in their title")
    args = parser.parse_args()
    args.file = os.path.join(args.dir, "compare.dat")
    if not os.path.exists(args.file):
        subprocess.run(["fio", "--name=x", f"--filename={args.file}", f"--size={args.size}",
                        "--rw=write", "--bs=1M", "--ioengine=psync", "--end_fsync=1",
                        "--output=/dev/null"], check=True)
    # stormlp reads all of the file, so fio does, too.
    args.size = str(os.path.getsize(args.file))
    return args


def ours(args, cpu, path, op, size, depth, *more, threads=1, seconds=None):
    """A cell of stormlp's, of so many seconds or once over the file."""
    length = ["--duration", str(seconds)] if seconds else ["--duration", "1x"]
    return lambda: stormlp(args.stormlp, cpu, "--path", path, "--op", op, "--io-size", size,
                           "--threads", str(threads), "--queue-depth", str(depth), "--file",
                           args.file, *length, *more)


def theirs(args, *options, pages="small", seconds=None):
    """A job of fio's, likewise."""
    return lambda: fio(args.file, args.size, seconds, *options, pages=pages)


def from_the_cache(args, held):
    """Reads of a file that is warm."""
    def heat():
        warm(args.file)

    timed = {"seconds": args.seconds}
    as_is = ["--cache", "as-is"]
    hot = ["--rw=randread", "--bs=4k", "--iodepth=32", "--direct=0", "--invalidate=0",
           "--cpus_allowed=0", "--ioengine=io_uring", "--fixedbufs", "--registerfiles"]
    deep = ours(args, 0, "buffered", "randread", "4K", 32, *as_is, **timed)
    held("4 KiB random read, page cache warm, one pinned thread, depth 32; fio's defaults", deep,
         theirs(args, *hot, **timed), heat)
    if args.ring_loop:
        held("4 KiB random read, page cache warm, one pinned thread, depth 32; a bare ring loop",
             ours(args, 0, "buffered", "randread", "4K", 32, *as_is, "--tune", "pages=small", **timed),
             ring_loop(args, 4096, 32), heat, "ring")
    held("4 KiB random read, page cache warm, one pinned thread, depth 32; fio in batches of 8",
         deep, theirs(args, *hot, "--iodepth_batch_submit=8", "--iodepth_batch_complete_max=32",
                      **timed), heat)
    psync = ["--direct=0", "--invalidate=0", "--ioengine=psync"]
    held("1 MiB sequential read, page cache warm, two threads; fio's two psync jobs",
         ours(args, None, "buffered", "read", "1M", 1, *as_is, threads=2, **timed),
         theirs(args, "--rw=read", "--bs=1M", "--numjobs=2", "--offset_increment=50%", *psync,
                **timed), heat)
    held("4 KiB random read, page cache warm, one thread, depth 1; fio's psync",
         ours(args, None, "buffered", "randread", "4K", 1, *as_is, **timed),
         theirs(args, "--rw=randread", "--bs=4k", "--iodepth=1", *psync, **timed), heat)


def through_the_cache(args, held):
    """Once over a file that is not in the page cache: a second pass would be warm."""
    for pages in ("small", "huge"):
        held(f"1 MiB sequential read, page cache cold, one pass, one thread, depth 1, {pages} pages; "
             "fio's psync", ours(args, None, "buffered", "read", "1M", 1, "--tune", f"pages={pages}"),
             theirs(args, "--rw=read", "--bs=1M", "--direct=0", "--ioengine=psync", pages=pages),
             lambda: drop(args.file))
    held("1 MiB sequential read, page cache cold, one pass, one thread, depth 8, small pages; fio's "
         "io_uring", ours(args, None, "buffered", "read", "1M", 8, "--tune", "pages=small"),
         theirs(args, "--rw=read", "--bs=1M", "--direct=0", "--ioengine=io_uring", "--iodepth=8"),
         lambda: drop(args.file))


def around_the_cache(args, held):
    """Direct reads, at equal pages."""
    timed = {"seconds": args.seconds}
    direct = ["--direct=1", "--ioengine=io_uring"]
    for pages in ("small", "huge"):
        held(f"4 KiB random read, O_DIRECT, one thread, depth 32, {pages} pages; fio with registered "
             "buffers and files",
             ours(args, None, "cpu", "randread", "4K", 32, "--tune", f"pages={pages}", **timed),
             theirs(args, "--rw=randread", "--bs=4k", "--iodepth=32", *direct, "--fixedbufs",
                    "--registerfiles", pages=pages, **timed))
        held(f"1 MiB sequential read, O_DIRECT, one thread, depth 8, {pages} pages; fio as users run "
             "it", ours(args, None, "cpu", "read", "1M", 8, "--tune", f"pages={pages}", **timed),
             theirs(args, "--rw=read", "--bs=1M", "--iodepth=8", *direct, pages=pages, **timed))


def main():
    args = arguments()

    def held(title, *sides):
        if args.only in title:
            compare(title, args.pairs, *sides)

    from_the_cache(args, held)
    around_the_cache(args, held)
    through_the_cache(args, held)
    if args.only in "null path":
        null_ceiling(args)


if __name__ == "__main__":
    main()
