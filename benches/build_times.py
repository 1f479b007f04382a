#!/usr/bin/env python3
"""How long a newcomer waits: the README's two commands in a fresh clone with a fresh target folder.

    benches/build_times.py                  clones, builds and tests; prints times, and the slowest units
    benches/build_times.py --last LOG       the slowest units of the last build here with `--timings`, and in the
                                            output of `cargo test`; --tests-seconds compares with the goal

Goals on two cores: 3 min until the first command starts, 12 min to build and run the tests. Compare on a quiet
machine only; the load before the start is printed.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIRST_BUILD = ["cargo", "build", "--release", "--locked", "--timings"]
FIRST = ["cargo", "run", "--release", "--locked", "--", "gds", "--io-size", "1M", "--threads", "8"]
TESTS = ["cargo", "test", "--workspace", "--locked", "--timings", "--config",
         """target.'cfg(unix)'.runner = 'benches/test_times'"""]
GOAL_FIRST_MINUTES = 3
GOAL_TESTS_MINUTES = 12
SLOWEST = 10


def timings(folder):
    """The units of the newest build under `folder`, as (seconds, what), the slowest first."""
    pages = sorted((folder / "target/cargo-timings").glob("cargo-timing*.html"), key=os.path.getmtime)
    if not pages:
        return []
    data = re.search(r"UNIT_DATA = (\[.*?\]);\n", pages[-1].read_text(), re.S)
    units = json.loads(data[1]) if data else []
    return sorted(((u["duration"], f"{u['name']} {u['target'].strip()}".strip()) for u in units), reverse=True)


def tests(output):
    """The test executables and their tests, each as (seconds, name), the slowest first. Single tests have a time
    where benches/test_times ran them, or where they print it themselves."""
    whole, single, name = [], [], "?"
    for line in output.splitlines():
        line = re.sub(r"\x1b\[[0-9;]*m", "", line)
        if m := re.match(r"\s*Running .*/deps/(\w+)-[0-9a-f]+\)", line):
            name = m[1]
        elif m := re.match(r"\s*Doc-tests (.+)", line):
            name = f"doc-tests of {m[1]}"
        elif m := re.match(r"test (.+?) \.\.\. .*<([0-9.]+)s>$", line):
            single.append((float(m[2]), f"{name} {m[1]}"))
        elif m := re.search(r"finished in ([0-9.]+)s", line):
            whole.append((float(m[1]), name))
    return sorted(whole, reverse=True), sorted(single, reverse=True)


def show_tests(output):
    whole, single = tests(output)
    show("slowest test executables", whole)
    show("slowest tests", single)


def show(title, rows):
    if rows:
        print(f"\n{title}")
        for seconds, what in rows[:SLOWEST]:
            print(f"  {seconds:7.1f} s  {what}")


def run(command, folder):
    """Runs it in `folder` and returns its time in seconds and its output."""
    started = time.monotonic()
    environment = {k: v for k, v in os.environ.items() if k != "CARGO_TARGET_DIR"}
    done = subprocess.run(command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode != 0:
        sys.stdout.write(done.stdout[-4000:])
        sys.exit(f"error: `{' '.join(command)}` failed with {done.returncode}")
    return time.monotonic() - started, done.stdout


def minutes(seconds):
    return f"{round(seconds) // 60} min {round(seconds) % 60} s"


def against(seconds, goal_minutes):
    word = "met" if seconds <= 60 * goal_minutes else "missed"
    return f"{minutes(seconds)}  (goal {goal_minutes} min: {word})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--last", metavar="LOG", nargs="?", const="",
                        help="the last build here, and the tests in this log of `cargo test`")
    parser.add_argument("--tests-seconds", metavar="SECONDS", type=float,
                        help="with --last: how long it took here to build and run the tests")
    arguments = parser.parse_args()
    if arguments.last is not None:
        show("slowest to compile", timings(ROOT))
        if arguments.last:
            show_tests(Path(arguments.last).read_text(errors="replace"))
        if arguments.tests_seconds is not None:
            print(f"\ntests, built and run here     {against(arguments.tests_seconds, GOAL_TESTS_MINUTES)}")
            print("first command                 not measured here; benches/build_times.py does, in a fresh clone")
        return
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="stormlp-build-") as folder:
        clone = Path(folder) / "stormlp"
        run(["git", "clone", "--quiet", str(ROOT), str(clone)], folder)
        run(["cargo", "fetch", "--locked"], clone)
        first, _ = run(FIRST_BUILD, clone)
        first_ran, _ = run(FIRST, clone)
        crates = timings(clone)
        built, _ = run([*TESTS, "--no-run"], clone)
        ran, output = run(TESTS, clone)
        print(f"{os.cpu_count()} CPUs, load {load:.2f} before the start, crates downloaded before")
        print(f"first command                {against(first, GOAL_FIRST_MINUTES)} until it starts, "
              f"then {minutes(first_ran)}")
        print(f"cargo test --workspace       {against(built + ran, GOAL_TESTS_MINUTES)}: "
              f"{minutes(built)} to build, {minutes(ran)} to run")
        show("slowest to compile, release", crates)
        show_tests(output)


if __name__ == "__main__":
    main()
