#!/usr/bin/env python3
"""Counts ten habits of wording per 10,000 words of pages, comments, messages and help texts.

    benches/english.py                        every text against its limit; exit code 1 if one is above
    benches/english.py --binary stormlp       also the help texts that this executable prints
    benches/english.py --places 40 own        the places of one habit, as file:line: text
    benches/english.py --root DIR             another project's README, docs and Rust sources, to compare

A limit is twice the rate of well-written peers (pages of ripgrep, elbencho and hyperfine; comments of ripgrep and
hyperfine), or 2 per 10,000 words, whichever is more. Messages and help texts have the limit of pages.

An expression finds words, not meanings, so it counts too much rather than too little, in ours as in the peers':

- what      as a noun: neither in a question nor after a verb of asking or saying ("shows what ran"), as listed below.
- nothing   "Nothing has been released" is counted as well as an actor ("nothing limits prompts").
- own       "its own" is counted where it says something, too; the verb ("owns") is not.
- takes     "takes a while" is counted; so are "takes part" and "takes over".
- whose     of people and of things alike.
- has       only after a fixed list of nouns (report, table, page …), and not before a participle ("has changed").
- most      not "at most", "most of the time", nor before an adjective ("most common"), which a list of endings decides;
            the majority ("in most cases") is counted.
"""

import argparse
import re
import subprocess
import sys
from bisect import bisect_right
from pathlib import Path

HABITS = {
    "what": r"\bwhat\b(?! (?:if|to|kinds?|sorts?|next)\b)",
    "nothing": r"\b(?:nothing|nobody|somebody|no one)\b",
    "own": r"\bown\b",
    "others": r"\bothers\b",
    "takes": r"\btakes?\b",
    "that of": r"\b(?:that|those) of\b",
    "whose": r"\bwhose\b",
    "beside": r"\b(?:besides?|beneath)\b",
    "has": r"\b(?:report|table|page|json|csv|column|headline|screen|answer)s? (?:has|have|had)\b(?! \w+ed\b| been\b)",
    "most": r"(?<!\bat )\b(?:most|least|fewest)\b(?! of (?:the|them|these|those|it|its)\b| \w+(?:ly|ed|ar|al|ant|ent|"
            r"ous|ful|ive|mon|able)\b)",
}
# A "what" after one of these begins a question, though an indirect one.
ASKING = re.compile(r"\b(?:says?|said|saying|shows?|shown|sees?|tells?|asks?|knows?|known|explains?|describes?|decides?|"
                    r"clarify|clarifies|learns?|finds? out|clear|lists?|names?|states?|matters?) +(?:\w+ )?$", re.I)
PAGES, COMMENTS = "pages", "comments"
# Per 10,000 words of peers. Of comments, "what" and "takes" are as this script counts them in ripgrep and hyperfine.
PEERS = {
    PAGES: [4.9, 1.1, 3.8, 0.5, 3.8, 0.5, 1.6, 0.0, 1.6, 0.0],
    COMMENTS: [3.5, 3.7, 2.7, 1.4, 5.2, 0.0, 0.5, 0.1, 0.4, 0.0],
}
FLOOR = 2.0
TOKENS = re.compile(r'//[^\n]*|r(#*)".*?"\1|"(?:\\.|[^"\\])*"|\'(?:\\.[^\']*|[^\\\'\n])\'', re.S)
TESTS = re.compile(r"^#\[cfg\((?:all\()?test\b[^\n]*\n(?:#\[[^\n]*\n)*(?:pub[^\n]*? )?mod \w+ \{\n.*?^\}\n", re.S | re.M)


def page_texts(path):
    """The prose of a page, line by line: no code blocks; `code` is one word."""
    inside = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            inside = not inside
        elif not inside:
            yield number, re.sub(r"`[^`]*`", "CODE", line)


def blank(match):
    return "\n" * match.group().count("\n")


def rust_texts(path):
    """Comments and literals of two words or more, outside modules of tests, each with its line."""
    text = TESTS.sub(blank, path.read_text())
    comments, literals = [], []
    line, at = 1, 0
    for token in TOKENS.finditer(text):
        line += text.count("\n", at, token.start())
        at = token.start()
        word = token.group()
        if word.startswith("//"):
            comments.append((line, re.sub(r"`[^`]*`", "CODE", word.lstrip("/!"))))
        elif word[0] in "r\"" and len(re.findall(r"[A-Za-z]{2,}", word)) > 1:
            for offset, part in enumerate(word.split("\n")):
                literals.append((line + offset, re.sub(r"\\[nt]|\{[^}]*\}", " ", part)))
    return comments, literals


def is_test(path):
    return path.stem in ("tests", "testing", "fixtures") or path.stem.endswith("_tests") or "tests" in path.parts


def help_texts(binary, words=()):
    text = subprocess.run([binary, *words, "--help"], capture_output=True, text=True, check=True).stdout
    name = " ".join(["stormlp", *words, "--help"])
    prose = text.split("Examples:")[0]
    yield name, list(enumerate(prose.splitlines(), 1))
    listed = "".join(re.findall(r"ommands:\n((?:  .*\n)+)", text))
    for command in re.findall(r"^  (\w\S*)", listed, re.M):
        if command != "help":
            yield from help_texts(binary, (*words, command))


def collect(root, binary):
    """Kind of text -> [(name, [(line, text)])]."""
    kinds = {PAGES: [], COMMENTS: [], "messages": []}
    pages = [root / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "tests/gpu/accept/README.md")]
    pages = [page for page in pages if page.is_file()]
    for page in pages + sorted((root / "docs").rglob("*.md")):
        kinds[PAGES].append((str(page.relative_to(root)), list(page_texts(page))))
    folders = [folder for folder in [root / "src", *root.glob("crates/*/src")] if folder.is_dir()]
    for path in sorted(path for folder in folders for path in folder.rglob("*.rs")):
        if not is_test(path.relative_to(root)):
            comments, literals = rust_texts(path)
            kinds[COMMENTS].append((str(path.relative_to(root)), comments))
            kinds["messages"].append((str(path.relative_to(root)), literals))
    if binary:
        kinds["help"] = list(help_texts(binary))
    return kinds


def found_in(lines, habit, expression):
    """The places of a habit, with sentences continued from line to line."""
    joined, starts = "", []
    for at, (number, text) in enumerate(lines):
        follows = at and lines[at - 1][0] == number - 1
        joined += (" " if follows else " | ") + text.strip()
        starts.append(len(joined) - len(text.strip()))
    for match in expression.finditer(joined):
        end = re.search(r"[.?!:;|](?:\s|$)", joined[match.end():])
        asks = end and end.group()[0] == "?" or ASKING.search(joined[:match.start()][-60:])
        if habit == "what" and asks:
            continue
        yield lines[bisect_right(starts, match.start()) - 1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("habit", nargs="?", choices=HABITS, help="list the places of this habit alone")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--binary", help="an executable whose help texts are counted, too")
    parser.add_argument("--kind", help="pages, comments, messages or help alone")
    parser.add_argument("--places", type=int, default=5, help="places to list per habit that is above its limit")
    options = parser.parse_args()
    above = 0
    for kind, sources in collect(options.root, options.binary).items():
        if options.kind not in (None, kind):
            continue
        words = sum(len(re.findall(r"[A-Za-z]+", text)) for _, lines in sources for _, text in lines)
        if not options.habit:
            print(f"{kind}: {words} words")
        peers = PEERS[COMMENTS if kind == COMMENTS else PAGES]
        for (habit, expression), rate in zip(HABITS.items(), peers):
            if options.habit not in (None, habit):
                continue
            expression = re.compile(expression, re.I)
            places = {}
            for name, lines in sources:
                hits = [(name, number, text.strip()) for number, text in found_in(lines, habit, expression)]
                places.setdefault(name, []).extend(hits)
            count = sum(map(len, places.values()))
            ours, limit = count * 10_000 / max(words, 1), max(2 * rate, FLOOR)
            over = ours > limit
            above += over
            if not options.habit:
                print(f"  {habit:8} {count:5}  {ours:5.1f} per 10,000  limit {limit:4.1f}{'  ABOVE' if over else ''}")
            if over or options.habit:
                worst = sorted(places.values(), key=len, reverse=True)
                for name, number, text in [hit for hits in worst for hit in hits][:options.places]:
                    print(f"    {name}:{number}: {text}")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
