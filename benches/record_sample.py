#!/usr/bin/env python3
"""Records the screen in README.md: `stormlp gds` by its default paths, in a terminal of 80 columns.

    cargo build --release
    benches/record_sample.py --dir /mnt/nvme              replaces the screen and the first sentence below it
    benches/record_sample.py --dir /mnt/nvme --print      prints both, and changes no file

It refuses a debug build, a busy machine, and a screen with a warning. With `--keep-best`, if every try warns, it
keeps the screen with the fewest warnings, the first of equals (figures do not count), and the sentence says so.
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
README = ROOT / "README.md"
# Maximum share of all CPUs that other programs may use, over SECONDS_OF_REST.
BUSY = 0.05
SECONDS_OF_REST = 5
ATTEMPTS_TO_REST = 12
LINES, COLUMNS = 24, 80
NOTE = re.compile(r"^A release build.*?\.(?=\s)", re.M | re.S)


def busy_share():
    """The share of all CPUs in use."""
    def ticks():
        fields = [int(field) for field in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
        return sum(fields), fields[3] + fields[4]
    all_before, idle_before = ticks()
    time.sleep(SECONDS_OF_REST)
    all_after, idle_after = ticks()
    return 1 - (idle_after - idle_before) / max(all_after - all_before, 1)


def wait_for_rest():
    for _ in range(ATTEMPTS_TO_REST):
        share = busy_share()
        if share <= BUSY:
            return
    sys.exit(f"the machine is busy: {share:.0%} of its CPUs are in use, at most {BUSY:.0%} may be; stop other programs")


def values(tree, key):
    """All values of `key` in a JSON document."""
    if isinstance(tree, dict):
        yield from (value for name, value in tree.items() if name == key)
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    for part in parts:
        yield from values(part, key)


def run(stormlp, words, folder):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STORMLP_DETAILS")}
    environment.update(COLUMNS=str(COLUMNS), STORMLP_RESULTS_DIR=folder)
    done = subprocess.run([stormlp, *words], capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"stormlp {' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def check_build(stormlp, folder):
    words = ["gds", "--path", "null", "--duration", "50ms", "--quiet", "--format", "json"]
    release = list(values(json.loads(run(stormlp, words, folder)), "release_build"))
    if release != [True]:
        sys.exit(f"{stormlp} is a debug build: cargo build --release")


def machine():
    names = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    shown = f"{os.cpu_count()} CPUs" + (f" ({names[0].strip()})" if names else "")
    listed = subprocess.run(["sh", "-c", "nvidia-smi -L"], capture_output=True, text=True)
    gpus = len(listed.stdout.splitlines()) if listed.returncode == 0 else 0
    return shown + (f" and {gpus} GPU{'s' * (gpus > 1)}" if gpus else " and no GPU")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stormlp", default=str(ROOT / "target/release/stormlp"))
    parser.add_argument("--dir", default="/mnt/disk", help="a folder on the storage to show")
    parser.add_argument("--tries", type=int, default=10)
    parser.add_argument("--keep-best", action="store_true", help="if every try warns, keep the one that warns least")
    parser.add_argument("--print", action="store_true", help="change no file")
    options = parser.parse_args()
    words = ["gds", "--dir", options.dir, "--duration", "2s"]
    best, fewest = None, None
    with tempfile.TemporaryDirectory() as folder:
        check_build(options.stormlp, folder)
        run(options.stormlp, [*words, "--quiet"], folder)  # lays out the files
        for number in range(1, options.tries + 1):
            wait_for_rest()
            screen = run(options.stormlp, words, folder).rstrip()
            warnings = screen.count("\nwarning: ")
            lines = screen.splitlines()
            if len(lines) + 1 > LINES or max(map(len, lines)) > COLUMNS:
                sys.exit(f"the screen does not fit {COLUMNS} x {LINES}:\n{screen}")
            print(f"try {number}: {warnings} warnings", file=sys.stderr)
            if fewest is None or warnings < fewest:
                best, fewest = screen, warnings
            if fewest == 0:
                break
        run(options.stormlp, ["clean", options.dir], folder)
    if fewest and not options.keep_best:
        sys.exit(f"every try warned; mend the cause, or add --keep-best\n{best}")
    note = f"A release build on an idle machine with {machine()}"
    note += f": the best of {options.tries} tries, which all warned." if fewest else "."
    sample = f"```text\n$ stormlp {' '.join(words)}\n{best}\n```"
    if options.print:
        print(f"{sample}\n\n{note}")
        return
    text = README.read_text()
    replaced, screens = re.subn(r"```text\n.*?\n```", lambda _: sample, text, flags=re.S)
    replaced, notes = NOTE.subn(lambda _: note, replaced)
    if (screens, notes) != (1, 1):
        sys.exit("README.md has no screen followed by a sentence that begins with 'A release build'")
    README.write_text(replaced)


if __name__ == "__main__":
    main()
