"""Two sides measured in turn, for the comparison scripts of this folder.

Neighbouring runs share the state of the machine, so two pairs are a block, in the order ABBA or BAAB
at random, and a steady drift cancels out in it. A ratio is the geometric mean of the pairs' ratios,
with Student's interval of their logarithms: as `stormlp compare --baseline --candidate` does.
"""

import math
import os
import random
import statistics

# Makes glibc (2.35 or later) ask for transparent huge pages under whatever malloc maps: with it, fio
# has the pages that stormlp has by default.
HUGE_MALLOC = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}

# Student's t for a two-sided interval of 95 %, by degrees of freedom.
STUDENT = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
           2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086]


def environment(pages):
    """The environment of a program that allocates with malloc on "small" or "huge" pages."""
    return {**os.environ, **(HUGE_MALLOC if pages == "huge" else {})}


def in_turn(pairs, ours, theirs, before=None):
    """Runs both sides in blocks of two pairs; the results of each, pair by pair."""
    sides = [(ours, []), (theirs, [])]
    for pair in range(pairs):
        order = order[::-1] if pair % 2 else random.sample(sides, 2)
        for run, results in order:
            if before:
                before()
            results.append(run())
    return sides[0][1], sides[1][1]


def ratio(mine, others):
    """The ratio of paired figures, as text: "1.07 [0.95 to 1.20]"."""
    logs = [math.log(a / b) for a, b in zip(mine, others) if a > 0 and b > 0]
    if not logs:
        return "n/a"
    mean = statistics.fmean(logs)
    if len(logs) < 3:
        return f"{math.exp(mean):.2f} [no interval: {len(logs)} pairs]"
    spread = (STUDENT[min(len(logs) - 1, len(STUDENT)) - 1] * statistics.stdev(logs)
              / math.sqrt(len(logs)))
    return f"{math.exp(mean):.2f} [{math.exp(mean - spread):.2f} to {math.exp(mean + spread):.2f}]"
