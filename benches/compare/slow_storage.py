"""Storage made slow for a comparison: fewer requests or bytes a second, or each request delayed."""

import contextlib
import os
import struct
import subprocess
import sys
import tempfile
import time


def put(path, text):
    with open(path, "w") as file:
        file.write(str(text))


def disk(folder):
    """Where the kernel describes the disk behind a folder."""
    number = os.stat(folder).st_dev
    path = os.path.realpath(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    return os.path.dirname(path) if os.path.exists(os.path.join(path, "partition")) else path


def device_counters(folder):
    """Reads completed, bytes read and reads merged into others of the disk behind a folder; None
    where there is none."""
    try:
        fields = open(os.path.join(disk(folder), "stat")).read().split()
    except OSError:
        return None
    return int(fields[0]), int(fields[2]) * 512, int(fields[1])


@contextlib.contextmanager
def read_ahead(folder, kib):
    """Another read-ahead of a disk, or of a file system without one, for a while."""
    path = os.path.join(disk(folder), "queue", "read_ahead_kb")
    if not os.path.exists(path):
        number = os.stat(folder).st_dev
        path = f"/sys/class/bdi/{os.major(number)}:{os.minor(number)}/read_ahead_kb"
    before = open(path).read()
    put(path, kib)
    try:
        yield
    finally:
        put(path, before)


@contextlib.contextmanager
def limited(folder, iops, bytes_per_second):
    """A control group that reads so much of the disk a second; both of cgroup's versions."""
    device = open(os.path.join(disk(folder), "dev")).read().strip()
    first = "/sys/fs/cgroup/blkio"
    group = os.path.join(first if os.path.isdir(first) else "/sys/fs/cgroup", "slow-storage")
    if not os.path.isdir(first):
        put("/sys/fs/cgroup/cgroup.subtree_control", "+io")
    os.makedirs(group, exist_ok=True)
    limits = ((iops, "read_iops_device", "riops"), (bytes_per_second, "read_bps_device", "rbps"))
    try:
        for limit, old, new in limits:
            if limit and os.path.isdir(first):
                put(os.path.join(group, f"blkio.throttle.{old}"), f"{device} {limit}")
            elif limit:
                put(os.path.join(group, "io.max"), f"{device} {new}={limit}")
        yield group
    finally:
        os.rmdir(group)


def join(group):
    """Puts the calling process into a control group."""
    put(os.path.join(group, "cgroup.procs"), os.getpid())


@contextlib.contextmanager
def delayed(folder, delay_ms, python):
    """A mount of a folder with a delay for every read; its path, and the counter of its reads."""
    with tempfile.TemporaryDirectory() as beside:
        mount_point, counters = os.path.join(beside, "slow"), os.path.join(beside, "counters")
        os.mkdir(mount_point)
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "slow_fs.py")
        log = os.path.join(beside, "log")
        command = [python, program, "--delay-ms", str(delay_ms), "--counters", counters, folder,
                   mount_point]
        with open(log, "w") as told:
            server = subprocess.Popen(command, stderr=told)
        while not os.path.ismount(mount_point):
            if server.poll() is not None:
                sys.exit(f"slow_fs.py ended:\n{open(log).read()}")
            time.sleep(0.05)
        try:
            yield mount_point, lambda _: (*struct.unpack("=QQ", open(counters, "rb").read()), 0)
        finally:
            subprocess.run(["fusermount3", "-u", "-z", mount_point], check=True)
            server.wait()


def compact_memory():
    """Joins free memory to large blocks, as far as the kernel can. Pages of the cache that do not lie next to
    each other are separate segments, and a request has at most so many: whoever reads after a process
    that left memory in single pages has more requests."""
    with contextlib.suppress(OSError), open("/proc/sys/vm/compact_memory", "w") as file:
        file.write("1")
