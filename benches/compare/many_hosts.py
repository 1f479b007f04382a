#!/usr/bin/env python3
"""Whether several hosts measure the same as one, and name the cause of a delay.

    benches/compare/many_hosts.py --stormlp target/release/stormlp --dir /tmp

Needs Open MPI's mpirun. All hosts are processes on this machine. Parts, all unless some are named:

    sizes    one host of 8 accelerators, two of 4 and eight of 1, in turn, on null storage: with the
             workload's compute time, and with a tenth of it
    slow     two hosts, the second's storage with 30 ms of latency: who is named the slowest, and what
             the barrier's cost is next to a run without a slow host
    network  two hosts, each in a network namespace with a separate host name, joined by a
             link that this script relays, without delay and with 5 ms (root; /dev/net/tun)
    gone     the same two hosts: the second is killed, stopped, or its link cut; how long the first
             goes on

Prints measurements next to their targets, without assertions.
"""

import argparse
import contextlib
import fcntl
import heapq
import json
import os
import select
import shlex
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
MPIRUN = ["mpirun.openmpi" if shutil.which("mpirun.openmpi") else "mpirun", "--oversubscribe",
          "--bind-to", "none"]
OWN = ["unet3d", "--path", "null", "--epochs", "1", "--params", "workflow.checkpoint=False"]
NULL = [*OWN, "--steps", "200", "--compute-time", "30ms"]


def parts(programs):
    """mpirun's words for several programs, `(processes, words)` each."""
    words = []
    for count, program in programs:
        words += [":"] * bool(words) + ["-n", str(count), *program]
    return words


def train(args, folder, programs, link=None):
    """Runs `stormlp train`, `(processes, options)` each, under one launcher; the report."""
    results = tempfile.mkdtemp(dir=folder)
    programs = [(count, [args.stormlp, "train", *options, "--results-dir", results, "--quiet",
                         "--format", "json"])
                for count, options in programs]
    words = [*MPIRUN, *parts(programs)]
    if link:
        words = link.launched(parts(programs))
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder,
                          env=os.environ | ROOT | {"STORMLP_GROUP": args.group}, timeout=300)
    if done.returncode not in (0, 6):
        sys.exit(f"ended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)


def sizes(args, folder):
    """AU of eight accelerators, however many hosts they are on."""
    steps = {"its own compute time": [*OWN, "--steps", "60"], "30 ms": NULL}
    for name, options in steps.items():
        au = {1: [], 2: [], 8: []}
        for _ in range(args.rounds):
            for hosts, figures in au.items():
                report = train(args, folder, [(hosts, [*options, "--accelerators", "8"])])
                figures.append(report["au_percent"]["profile"])
        for hosts, figures in au.items():
            print(f"{name}, {hosts} x {8 // hosts}: AU median {statistics.median(figures):.2f} %,"
                  f" {min(figures):.2f} to {max(figures):.2f} (wanted: within 1 point of 1 x 8)")


def waits(report):
    """A line on the cost of barriers."""
    group, epoch = report["group"], report["epochs"][-1]
    own, empty = group["own_barrier_us"], group["empty_barrier_us"]
    return (f"AU {report['au_percent']['profile']:.1f} %, empty barrier p50 {empty['p50']:.0f} us,"
            f" own cost p50 {own['p50']:.0f} us p99 {own['p99']:.0f} us,"
            f" waited for storage {epoch['waiting_seconds']['storage']:.2f} s,"
            f" slowest {[host['slowest_steps'] for host in report['hosts']]}")


def dataset(args, folder):
    """Options to train on a small dataset, made once."""
    keys = ["dataset.record_length_bytes=65536", "dataset.record_length_bytes_stdev=0",
            "dataset.num_files_train=400", "reader.read_threads=1", "reader.prefetch_size=1"]
    params = [word for key in keys for word in ("--params", key)]
    if not os.path.exists(os.path.join(folder, "data")):
        words = [args.stormlp, "datagen", "unet3d", "--dir", "data", *params, "--quiet"]
        subprocess.run(words, cwd=folder, check=True, capture_output=True)
    return ["unet3d", "--dir", "data", "--epochs", "1", "--params", "reader.batch_size=1", "--steps", "200",
            "--compute-time", "10ms", *params, "--params", "workflow.checkpoint=False"]


def slow(args, folder):
    """The second host's storage answers late."""
    options = dataset(args, folder)
    for name, more in [("nobody slow", []), ("the second slow", ["--throttle", "latency=30ms"])]:
        report = train(args, folder, [(1, options), (1, [*options, *more])])
        print(f"{name}: {waits(report)}")
    print("(wanted: the second named in at least 95 % of the steps, the own cost within 200 us)")


def is_of(pid, program):
    """Whether this process runs `program`."""
    try:
        return os.path.realpath(f"/proc/{pid}/exe") == os.path.realpath(program)
    except OSError:
        return False


class Link:
    """Two network namespaces and the wire between them, which delays or loses packets."""

    NAMES = ("stormlp-h1", "stormlp-h2")

    def __init__(self, folder):
        self.delay_seconds, self.cut, self.over = 0.0, False, False
        self.ends = [self._end(name, number + 1) for number, name in enumerate(self.NAMES)]
        self.agent = os.path.join(folder, "agent")
        with open(self.agent, "w") as file:
            # Starts a command on the second "host": with its name, in its network.
            file.write(f"#!/bin/sh\nshift\nexec {' '.join(self.on(1))} \"$*\"\n")
        os.chmod(self.agent, 0o755)
        self.thread = threading.Thread(target=self._carry)
        self.thread.start()

    @staticmethod
    def _end(name, number):
        subprocess.run(["ip", "netns", "del", name], capture_output=True)
        device = f"stormlp{number}"
        end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        flags = 0x0001 | 0x1000  # IFF_TUN, IFF_NO_PI
        fcntl.ioctl(end, 0x400454CA, struct.pack("16sH22x", device.encode(), flags))  # TUNSETIFF
        run = ["ip", "netns", "exec", name, "ip"]
        for words in [["ip", "netns", "add", name],
                      ["ip", "link", "set", device, "netns", name],
                      [*run, "addr", "add", f"10.77.0.{number}/24", "dev", device],
                      [*run, "link", "set", device, "up"], [*run, "link", "set", "lo", "up"]]:
            subprocess.run(words, check=True)
        return end

    def _carry(self):
        waiting, number = [], 0
        while not self.over:
            now = time.monotonic()
            while waiting and waiting[0][0] <= now:
                _, _, end, packet = heapq.heappop(waiting)
                if not self.cut:
                    os.write(end, packet)
            left = waiting[0][0] - now if waiting else 0.1
            for end in select.select(self.ends, [], [], max(0.0, min(left, 0.1)))[0]:
                other = self.ends[1 - self.ends.index(end)]
                number += 1
                due = time.monotonic() + self.delay_seconds
                heapq.heappush(waiting, (due, number, other, os.read(end, 65536)))

    def on(self, number):
        """Words before a shell command that runs on this host."""
        name = self.NAMES[number]
        return ["ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c",
                f"'hostname {name}; exec sh -c \"$0\"'"]

    def launched(self, programs):
        """A command that starts these on both hosts. mpirun runs on the first."""
        hosts = ",".join(f"10.77.0.{number + 1}:1" for number in range(2))
        net = "10.77.0.0/24"
        words = [*MPIRUN, "--host", hosts, "--mca", "plm_rsh_agent", self.agent, "--mca",
                 "oob_tcp_if_include", net, "--mca", "btl_tcp_if_include", net, "--mca", "btl",
                 "tcp,self", "--mca", "pml", "ob1", *programs]
        return ["sh", "-c", " ".join([*self.on(0), shlex.quote(shlex.join(words))])]

    def processes(self, number, program):
        """The processes of this host that run `program`."""
        listed = subprocess.run(["ip", "netns", "pids", self.NAMES[number]], capture_output=True,
                                text=True, check=True).stdout.split()
        return [int(pid) for pid in listed if is_of(pid, program)]

    def close(self):
        self.over = True
        self.thread.join()
        for end in self.ends:
            os.close(end)
        for name in self.NAMES:
            # Such as a daemon that has lost its mpirun.
            listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True)
            for pid in listed.stdout.split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def network(args, folder):
    """Two hosts with a link between them, and the effect of its delay."""
    options = dataset(args, folder)
    link = Link(folder)
    try:
        for delay_ms in (0, 5):
            link.delay_seconds = delay_ms / 1000
            report = train(args, folder, [(2, options)], link)
            print(f"link of {delay_ms} ms: {waits(report)}")
    finally:
        link.close()
    print("(wanted: the own cost rises by the delay, once or twice, and the storage wait does not)")


def kill(link, pids):
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def stop(link, pids):
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)


def cut(link, pids):
    link.cut = True


def said_in(file):
    """The content of a file up to now."""
    file.seek(0)
    return file.read()


def gone(args, folder):
    """The first host after the end of the second one."""
    for what, fate in [("killed", kill), ("stopped", stop), ("its link cut", cut)]:
        link = Link(folder)
        results = tempfile.mkdtemp(dir=folder)
        words = [args.stormlp, "train", *NULL, "--results-dir", results]
        words[words.index("200")] = "10000"
        # A daemon behind a cut link holds a pipe open for ever.
        errors = tempfile.TemporaryFile("w+", dir=folder)
        run = subprocess.Popen(link.launched(["-n", "2", *words]), cwd=folder,
                               env=os.environ | ROOT | {"STORMLP_GROUP": args.group}, stdout=subprocess.DEVNULL,
                               stderr=errors, start_new_session=True)
        try:
            time.sleep(8)
            first, second = (link.processes(number, args.stormlp) for number in range(2))
            if not first or not second:
                sys.exit(f"no run on both hosts: {said_in(errors)}")
            fate(link, second)
            begun = time.monotonic()
            while any(is_of(pid, args.stormlp) for pid in first) and time.monotonic() < begun + 60:
                time.sleep(0.05)
            print(f"the second {what}: the first ended after {time.monotonic() - begun:.1f} s,"
                  f" left {sorted(os.listdir(results))} (wanted: within 10 s, saved)")
            for pid in second:
                if is_of(pid, args.stormlp):
                    os.kill(pid, signal.SIGKILL)
            try:
                run.wait(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(run.pid, signal.SIGKILL)
                run.wait()
            lines = [line for line in said_in(errors).splitlines() if "error:" in line]
            print(f"    launcher's code {run.returncode}; {' | '.join(lines)}")
        finally:
            link.close()


def main():
    every = {"sizes": sizes, "slow": slow, "network": network, "gone": gone}
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stormlp", default="target/release/stormlp", type=os.path.abspath)
    parser.add_argument("--dir", default=".", help="where a small dataset is made")
    parser.add_argument("--group", default="auto", help="how the processes find each other")
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument("part", nargs="*", choices=[*every, []], default=[])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        for part in args.part or every:
            every[part](args, folder)


if __name__ == "__main__":
    main()
