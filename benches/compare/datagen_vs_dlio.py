#!/usr/bin/env python3
"""Makes datasets with `stormlp datagen` and with DLIO, and compares them file by file.

    benches/compare/datagen_vs_dlio.py --stormlp target/release/stormlp --python venv/bin/python \\
        --dir /mnt/nvme

First the same answer: for unet3d (npz), cosmoflow and resnet50 (tfrecord) every file of DLIO's has
to have the size of stormlp's, stormlp has to accept DLIO's folder, and DLIO has to train on
stormlp's. Then the figures: bytes per CPU second of both, in turn, and stormlp's throughput and CPU
time of a GiB next to fio's sequential O_DIRECT writes of new, preallocated files of the same
size. fio writes one buffer over and over; stormlp makes incompressible content.

The interpreter needs `dlio-benchmark` from PyPI (the code of v1.0; TensorFlow, PyTorch and mpi4py
with it) and, for tfrecord, a `tfrecord2idx` on its PATH. A part that cannot run says so. Exit 1
when sizes differ or one side refuses the other's files.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys

import turns

SMALL = {
    # workload: (DLIO's name, training files, evaluation files, samples per file, length, stdev)
    "unet3d": ("unet3d_h100", 7, 2, 1, 1_466_006, 683_418),
    "cosmoflow": ("cosmoflow_h100", 6, 0, 1, 2_828_486, 71_311),
    "resnet50": ("resnet50_h100", 3, 0, 50, 114_660.07, 0),
}

# Files of the figures.
COUNTS = {"unet3d": 14, "resnet50": 8, "cosmoflow": 192}


def run(command, env=None):
    """Runs a command; its user and system time, and its output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return done, cpu


def stormlp(args, workload, folder, *options):
    command = [args.stormlp, "datagen", workload, "--edition", "1.0", "--dir", folder,
               "--format", "json", *options]
    done, cpu = run(command)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout), cpu


def dlio(args, name, folder, out, *options):
    """DLIO with some overrides; None when it failed."""
    command = [args.python, "-m", "dlio_benchmark.main", f"workload={name}",
               f"++workload.dataset.data_folder={folder}", "++workload.workflow.checkpoint=False",
               f"hydra.run.dir={out}", *options]
    path = os.path.dirname(os.path.abspath(args.python)) + os.pathsep + os.environ["PATH"]
    done, cpu = run(command, {**os.environ, "PATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"})
    if done.returncode != 0:
        print("DLIO failed:\n" + "\n".join((done.stdout + done.stderr).splitlines()[-8:]))
        return None, cpu
    return done.stdout + done.stderr, cpu


def files(folder):
    """Size of every data and index file, by its path in the folder."""
    found = {}
    for root, _, names in os.walk(folder):
        for name in names:
            if not name.startswith("."):
                path = os.path.join(root, name)
                found[os.path.relpath(path, folder)] = os.path.getsize(path)
    return found


def params(length, stdev, valid):
    return ["--params", f"dataset.record_length_bytes={length}",
            "--params", f"dataset.record_length_bytes_stdev={stdev}",
            "--params", f"dataset.num_files_eval={valid}"]


def same_answer(args, workload):
    """Whether both sides make the same files and accept each other's."""
    name, train, valid, samples, length, stdev = SMALL[workload]
    ours, theirs, out = (os.path.join(args.dir, f"{workload}-{side}")
                         for side in ("stormlp", "dlio", "out"))
    for folder in (ours, theirs, out):
        shutil.rmtree(folder, ignore_errors=True)
    options = ["--files", str(train), "--params", f"dataset.num_samples_per_file={samples}",
               *params(length, stdev, valid)]
    stormlp(args, workload, ours, *options)
    dlio_options = [f"++workload.dataset.num_files_train={train}",
                    f"++workload.dataset.num_files_eval={valid}",
                    f"++workload.dataset.num_samples_per_file={samples}",
                    f"++workload.dataset.record_length={length}",
                    f"++workload.dataset.record_length_stdev={stdev}"]
    made, _ = dlio(args, name, theirs, out, "++workload.workflow.generate_data=True",
                   "++workload.workflow.train=False", *dlio_options)
    if made is None:
        return False
    mine, others = files(ours), files(theirs)
    good = mine == others
    print(f"{workload}: {len(mine)} files, "
          f"{'all sizes as DLIO has them' if good else 'SIZES DIFFER'}")
    if not good:
        for path in sorted(set(mine) | set(others)):
            if mine.get(path) != others.get(path):
                print(f"  {path}: stormlp {mine.get(path)}, DLIO {others.get(path)}")
    seen, _ = stormlp(args, workload, theirs, "--check", *options)
    print(f"{workload}: stormlp accepts {seen['files']} files of DLIO's, {len(seen['faults'])} bad")
    trained, _ = dlio(args, name, ours, out, "++workload.workflow.generate_data=False",
                      "++workload.workflow.train=True", "++workload.train.epochs=1",
                      "++workload.train.computation_time=0.001",
                      "++workload.reader.batch_size=1", *dlio_options)
    steps = next((line for line in (trained or "").splitlines() if "steps completed" in line), "")
    print(f"{workload}: DLIO on stormlp's files: {steps.split('[INFO]')[-1].strip() or 'FAILED'}")
    return good and trained is not None and bool(steps)


def fio(args, count, size):
    """Bytes per second and CPU seconds of fio writing new, preallocated files, device flushed at
    the end."""
    folder = os.path.join(args.dir, "fio")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    command = ["fio", "--name=x", f"--directory={folder}", f"--nrfiles={count}",
               f"--filesize={size}", "--rw=write", "--bs=1M", "--direct=1", "--ioengine=io_uring",
               "--iodepth=16", "--fallocate=posix", "--file_service_type=sequential",
               "--openfiles=1", "--end_fsync=1", "--output-format=json"]
    done, cpu = run(command)
    shutil.rmtree(folder, ignore_errors=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)["jobs"][0]["write"]["bw_bytes"], cpu


def figures(args, workload, count):
    """Bytes per CPU second on both sides, throughput next to fio's."""
    name = SMALL[workload][0]
    ours, theirs, out = (os.path.join(args.dir, f"{workload}-big-{side}")
                         for side in ("stormlp", "dlio", "out"))
    bytes_made = 0

    def ours_once():
        nonlocal bytes_made
        report, cpu = stormlp(args, workload, ours, "--overwrite", "--files", str(count))
        shutil.rmtree(ours, ignore_errors=True)
        bytes_made = report["bytes_written"]
        return bytes_made / report["seconds"], cpu

    ours_once()  # how large a file is, for fio
    mine, others = turns.in_turn(args.pairs, ours_once, lambda: fio(
        args, count, (bytes_made // count + 4095) // 4096 * 4096))
    gib = bytes_made / (1 << 30)
    rows = {"stormlp": [bytes_made / cpu for _, cpu in mine], "rate": [rate for rate, _ in mine],
            "fio": [rate for rate, _ in others], "cpu": [cpu / gib for _, cpu in mine],
            "fio_cpu": [cpu / gib for _, cpu in others]}
    if not args.no_dlio:
        shutil.rmtree(theirs, ignore_errors=True)
        made, cpu = dlio(args, name, theirs, out, "++workload.workflow.generate_data=True",
                         "++workload.workflow.train=False",
                         f"++workload.dataset.num_files_train={count}")
        if made is not None:
            rows["dlio"] = [sum(files(theirs).values()) / cpu]
        shutil.rmtree(theirs, ignore_errors=True)
    middle = {key: statistics.median(values) for key, values in rows.items()}
    print(f"\n{workload}, {count} files, {bytes_made / 1e9:.2f} GB")
    print(f"  GB per CPU second: stormlp {middle['stormlp'] / 1e9:.2f}", end="")
    if "dlio" in middle:
        print(f", DLIO {middle['dlio'] / 1e9:.3f} (start included), "
              f"ratio {middle['stormlp'] / middle['dlio']:.1f}", end="")
    print(f"\n  MiB/s: stormlp {middle['rate'] / 2**20:.0f}, fio {middle['fio'] / 2**20:.0f}, "
          f"ratio {turns.ratio(rows['rate'], rows['fio'])}")
    print(f"  CPU s a GiB: stormlp {middle['cpu']:.3f}, fio {middle['fio_cpu']:.3f}, ratio "
          f"{turns.ratio(rows['cpu'], rows['fio_cpu'])}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stormlp", default="target/release/stormlp")
    parser.add_argument("--python", default="python3", help="an interpreter with dlio-benchmark")
    parser.add_argument("--dir", default="compare-data", help="where the datasets are made")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--no-dlio", action="store_true", help="only stormlp and fio")
    parser.add_argument("--no-figures", action="store_true", help="only the same answer")
    parser.add_argument("--workloads", nargs="+", default=list(COUNTS), choices=list(COUNTS),
                        help="of the figures")
    args = parser.parse_args()
    args.dir = os.path.abspath(args.dir)
    os.makedirs(args.dir, exist_ok=True)
    good = args.no_dlio or all([same_answer(args, workload) for workload in SMALL])
    if not args.no_figures:
        for workload in args.workloads:
            figures(args, workload, COUNTS[workload])
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
