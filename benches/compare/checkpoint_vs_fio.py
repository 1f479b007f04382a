#!/usr/bin/env python3
"""Runs `stormlp checkpoint` and fio in turn on files of the same sizes; prints medians and ratios with
their intervals.

    benches/compare/checkpoint_vs_fio.py --stormlp target/release/stormlp --dir /mnt/nvme --pairs 5

Saves: fio writes, with one job for each rank, the rank's files one after the other, new and
preallocated (which fio does before its clock starts), of the same sizes, with the same transfer
size and streams and an fsync at the end of each. Restores: fio reads the files that stormlp saved,
1 MiB at a time at depth 8, around the page cache; stormlp restores them cold with O_DIRECT.

Direct transfers of both sides have the same pages under their buffers, once small and once huge:
huge pages alone make them two to three times as fast on some disks. --pages measures one of them alone.
There are no assertions: the figures are for people to read.
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

GIB = 1 << 30

MODEL = """\
model:
  name: bench
  type: transformer
  num_layers: {layers}
  parallelism: {{tensor: 2, pipeline: 1, zero_stage: 3}}
  transformer: {{vocab_size: 16384, hidden_size: 2048, ffn_hidden_size: 8192,
    num_attention_heads: 16, num_kv_heads: 8}}
"""


def stormlp(arguments, *options):
    """One run; its report."""
    with tempfile.TemporaryDirectory() as results:
        command = [arguments.stormlp, "checkpoint", "--quiet", arguments.model, "--ranks",
                   str(arguments.ranks), "--scale", "1", "--pause", "0", "--dir", arguments.folder,
                   "--format", "json", *options]
        if "--dry-run" not in options:
            command += ["--results-dir", results]
        run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {run.returncode}:\n{run.stderr}")
    return json.loads(run.stdout)


def save(arguments, path, pages):
    """GiB/s and CPU seconds a GiB of one save; the files stay."""
    report = stormlp(arguments, "--saves", "1", "--restores", "0", "--path", path, "--tune", f"pages={pages}")
    result = report["saves"][0]
    return {"rate": result["gib_per_second"]["total"],
            "cpu": report["summary"]["save"]["cpu_seconds_per_gib"],
            "rss": report["peak_rss_bytes"]}


def restore(arguments, pages):
    """GiB/s of one cold restore around the page cache."""
    report = stormlp(arguments, "--saves", "0", "--restores", "1", "--path", "cpu",
                     "--edition", "native", "--tune", f"pages={pages}")
    return {"rate": report["restores"][0]["gib_per_second"]["total"]}


def fio(text, pages):
    """Runs a job file with its memory on such pages; the jobs of its JSON."""
    with tempfile.NamedTemporaryFile("w", suffix=".fio") as job:
        job.write(text)
        job.flush()
        run = subprocess.run(["fio", "--output-format=json", job.name], capture_output=True,
                             text=True, env=turns.environment(pages))
    if run.returncode != 0:
        sys.exit(f"fio ended with {run.returncode}:\n{run.stderr}\n{text}")
    return json.loads(run.stdout[run.stdout.index("{"):])["jobs"]


def fio_save(arguments, plan, path, pages):
    """GiB/s of fio's writes: all bytes over the slowest rank's jobs."""
    folder = os.path.join(arguments.dir, "fio-checkpoint")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    direct = int(path == "cpu")
    lines = [f"[global]\nrw=write\nbs={plan['save']['chunk_bytes']}\ndirect={direct}\n"
             f"ioengine={'io_uring' if direct else 'psync'}\niodepth=1\nend_fsync=1\n"
             f"fallocate=posix\ndirectory={folder}\n"]
    for rank in plan["ranks"]:
        before = ""
        for number, file in enumerate(rank["files"]):
            name = f"r{rank['rank']}f{number}"
            lines.append(f"[{name}]\nfilename={name}\nfilesize={file['bytes']}\n{before}")
            before = f"wait_for={name}\n"
    seconds = {}
    for job in fio("\n".join(lines), pages):
        rank = job["jobname"].split("f")[0]
        seconds[rank] = seconds.get(rank, 0) + job["job_runtime"] / 1000
    shutil.rmtree(folder)
    return {"rate": plan["total_bytes"] / GIB / max(seconds.values())}


def fio_restore(arguments, plan, pages):
    """GiB/s of fio reading the saved files, 1 MiB at depth 8."""
    folder = max(glob.glob(os.path.join(arguments.folder, "run*", "global_epoch1_step1")))
    names = ":".join(os.path.join(folder, file["name"])
                     for rank in plan["ranks"] for file in rank["files"])
    jobs = fio(f"[read]\nrw=read\nbs=1M\ndirect=1\nioengine=io_uring\niodepth=8\n"
               f"file_service_type=sequential\nfilename={names}\n", pages)
    return {"rate": jobs[0]["read"]["bw_bytes"] / GIB}


def compare(title, pairs, ours, theirs):
    """Runs both sides in turn and prints medians and their ratio."""
    mine, others = turns.in_turn(pairs, ours, theirs)
    rates = [[run["rate"] for run in runs] for runs in (mine, others)]
    rate, other = map(statistics.median, rates)
    print(f"{title}: stormlp {rate:.3f} GiB/s, fio {other:.3f} GiB/s, ratio {turns.ratio(*rates)}")
    print("  stormlp " + " ".join(f"{run['rate']:.3f}" for run in mine)
          + " | fio " + " ".join(f"{run['rate']:.3f}" for run in others))
    if "cpu" in mine[0]:
        cpu = statistics.median(run["cpu"] for run in mine)
        rss = max(run["rss"] for run in mine)
        print(f"  stormlp: {cpu:.4f} CPU seconds a GiB, {rss / (1 << 20):.0f} MiB resident at most")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--stormlp", default="target/release/stormlp")
    parser.add_argument("--dir", default=".", help="folder on the storage to measure")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--pages", nargs="+", default=["small", "huge"], choices=["small", "huge"])
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--layers", type=int, default=4, help="about 0.95 GiB each")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.dir) as work:
        arguments.folder = os.path.join(work, "checkpoints")
        arguments.model = os.path.join(work, "bench.yaml")
        with open(arguments.model, "w", encoding="utf-8") as file:
            file.write(MODEL.format(layers=arguments.layers))
        for path in ("cpu", "buffered"):
            plan = stormlp(arguments, "--dry-run", "--path", path)
            print(f"{plan['total_bytes'] / GIB:.2f} GiB on {len(plan['ranks'])} ranks, path {path}")
            for pages in arguments.pages:
                compare(f"save, {path}, fsync, {pages} pages", arguments.pairs,
                        lambda: save(arguments, path, pages),
                        lambda: fio_save(arguments, plan, path, pages))
        save(arguments, "cpu", "huge")
        for pages in arguments.pages:
            compare(f"restore, cold, O_DIRECT, {pages} pages", arguments.pairs,
                    lambda: restore(arguments, pages), lambda: fio_restore(arguments, plan, pages))


if __name__ == "__main__":
    main()
