#!/usr/bin/env python3
"""How often `stormlp compare --history` shows a change in reports of one work that did not change.

    benches/compare/history.py --stormlp target/release/stormlp --reports DIR

DIR has the reports of many runs of one work, such as of
`for i in $(seq 240); do stormlp gds ... --results-dir DIR; done`. They are cut into series of 20, 30 and 40:
in the order in which they ran, where a machine that is busy for some of them has another level, and in
random order, where none has: there at most 1 series of 20 should show a change. There are no assertions.
"""

import argparse
import collections
import datetime
import glob
import json
import os
import random
import subprocess
import sys
import tempfile

LENGTHS = [20, 30, 40]
DAY_ONE = datetime.datetime(2026, 1, 1)


def changed(args, reports):
    """The figures that change over the reports, one a night."""
    with tempfile.TemporaryDirectory() as folder:
        for night, report in enumerate(reports):
            started = (DAY_ONE + datetime.timedelta(days=night)).isoformat() + "Z"
            place = os.path.join(folder, f"{night:03}")
            os.mkdir(place)
            with open(os.path.join(place, "report.json"), "w", encoding="utf-8") as file:
                json.dump({**report, "started_at": started}, file)
        words = [args.stormlp, "compare", "--history", folder, "--format", "json", "--quiet"]
        done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}\n{done.stderr}")
    return [figure["figure"] for figure in json.loads(done.stdout)["figures"] if figure["changes"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stormlp", required=True, help="the executable")
    parser.add_argument("--reports", required=True, help="folder of reports of one work")
    args = parser.parse_args()
    files = glob.glob(os.path.join(args.reports, "*", "report.json"))
    reports = [json.load(open(file, encoding="utf-8")) for file in files]
    reports.sort(key=lambda report: report["started_at"])
    mixed = random.Random(2026).sample(reports, len(reports))
    print("| order | series | with a change | figures |")
    print("|---|--:|--:|---|")
    for name, ordered in [("as they ran", reports), ("random", mixed)]:
        series = [ordered[at:at + length] for length in LENGTHS
                  for at in range(0, len(ordered) - length + 1, length)]
        found = [changed(args, one) for one in series]
        figures = collections.Counter(figure for one in found for figure in one)
        told = ", ".join(f"{count} × {figure}" for figure, count in figures.most_common())
        print(f"| {name} | {len(series)} | {sum(map(bool, found))} | {told} |")


if __name__ == "__main__":
    main()
