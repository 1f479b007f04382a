#!/usr/bin/env python3
"""Shows a folder as a read-only file system with a delay for every read.

    benches/compare/slow_fs.py --delay-ms 5 --counters /tmp/slow.counters /data /mnt/slow

For storage that is limited by latency, where the kernel has no device mapper to delay a device. Each
request sleeps and is then answered from the folder, which should be in the page cache; requests that
the kernel sends side by side sleep side by side. The counters file holds two 64-bit numbers, read
requests and bytes. Needs FUSE, libfuse 3 and the package mfusepy. Unmount to end it: fusermount3 -u.
"""

import argparse
import errno
import mmap
import os
import struct
import threading
import time

import mfusepy


class SlowFolder(mfusepy.Operations):
    """The folder; files are read after a delay."""

    use_ns = True

    def __init__(self, root, delay_seconds, counters):
        self.root, self.delay_seconds = root, delay_seconds
        self.counting, self.requests, self.bytes = threading.Lock(), 0, 0
        with open(counters, "w+b") as file:
            file.truncate(16)
            self.counters = mmap.mmap(file.fileno(), 16)

    def _real(self, path):
        return os.path.join(self.root, path.lstrip("/"))

    def getattr(self, path, fh=None):
        found = os.lstat(self._real(path))
        names = ("st_mode", "st_nlink", "st_uid", "st_gid", "st_size", "st_blocks")
        times = {f"st_{kind}time": getattr(found, f"st_{kind}time_ns") for kind in "acm"}
        return {name: getattr(found, name) for name in names} | times

    def readdir(self, path, fh):
        return [".", "..", *os.listdir(self._real(path))]

    def readlink(self, path):
        return os.readlink(self._real(path))

    def statfs(self, path):
        found = os.statvfs(self._real(path))
        return {name: getattr(found, name) for name in ("f_bsize", "f_frsize", "f_blocks", "f_bavail")}

    def open(self, path, flags):
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise mfusepy.FuseOSError(errno.EROFS)
        return os.open(self._real(path), os.O_RDONLY)

    def release(self, path, fh):
        os.close(fh)
        return 0

    def read(self, path, size, offset, fh):
        time.sleep(self.delay_seconds)
        content = os.pread(fh, size, offset)
        with self.counting:
            self.requests += 1
            self.bytes += len(content)
            self.counters[:] = struct.pack("=QQ", self.requests, self.bytes)
        return content


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--delay-ms", type=float, required=True)
    parser.add_argument("--counters", required=True)
    parser.add_argument("folder", type=os.path.abspath)
    parser.add_argument("mount_point")
    args = parser.parse_args()
    folder = SlowFolder(args.folder, args.delay_ms / 1e3, args.counters)
    mfusepy.FUSE(folder, args.mount_point, foreground=True, ro=True, fsname="slow_fs")


if __name__ == "__main__":
    main()
