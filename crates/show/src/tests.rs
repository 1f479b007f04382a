//! Documents in every output format at typical terminal widths.

use proptest::prelude::*;
use stormlp_core::printable::printable;
use stormlp_core::warning::{Warning, WarningKind};

use crate::document::{Cell, Column, Document, Quantity, Table};
use crate::records::Records;
use crate::{csv, doctor, markdown, text};

#[test]
fn doctor_output_matches_the_snapshots() {
    let document = doctor::tests::sample();
    for width in [80, 100, 200] {
        let text = text::render(&document, Some(width));
        let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest <= width, "{longest} at {width}");
        insta::assert_snapshot!(format!("doctor_{width}"), text);
    }
    insta::assert_snapshot!("doctor_markdown", markdown::render(&document));
}

#[test]
fn a_path_longer_than_the_line_is_broken_after_a_slash() {
    let path = format!("/data/{}/{}", "a".repeat(30), "b".repeat(50));
    let mut document = Document::new("done");
    document.warnings = vec![warning(&format!("{path} is long"), "")];
    let broken = format!(
        "warning: /data/\n  {}/\n  {}\n  {} is long\n\ndone\n",
        "a".repeat(30),
        "b".repeat(31),
        "b".repeat(19)
    );
    assert_eq!(text::render(&document, Some(40)), broken);
}

fn warning(fact: &str, remedy: &str) -> Warning {
    Warning::new(WarningKind::NotComparable, fact, remedy)
}

/// A document with eight rows, in which `depth` varies, `op` does not, and all else is much.
fn full() -> Document {
    let mut document = Document::new("the answer");
    document.brief.add("files", "one file");
    document.facts.add("host", "not on a screen");
    let measured = ["GiB/s", "IOPS", "mean µs", "p50 µs", "p99 µs", "p99.9 µs", "max µs"];
    let settings = [
        Column::setting("path"),
        Column::setting("op"),
        Column { numbers: true, ..Column::setting("depth") },
    ];
    let measured = measured.iter().zip(1..).map(|(name, drop)| Column::numbers(*name, drop));
    let mut table = Table::new(settings.into_iter().chain(measured));
    for row in 0..8_u32 {
        let mark = table.footnote(format!("note {row} {}", "word ".repeat(30)));
        let mut cells: Vec<Cell> =
            vec!["cpu-async-gpu".into(), "read".into(), (row + 1).to_string().into()];
        let number = Quantity::higher(123_456.0, "");
        cells.extend((0..7).map(|nth| match nth {
            0 => Cell::Number(number, mark.clone()),
            _ => Cell::from(number),
        }));
        table.row(row.to_string(), cells);
    }
    document.table(table);
    document.details("Over time", None).lines.push("not on a screen either".to_string());
    let long = |nth| warning(&format!("warning {nth} {}", "fact ".repeat(40)), "the whole help");
    document.warnings = (0..7).map(long).collect();
    document
}

#[test]
fn a_screen_ends_with_the_answer_and_counts_what_it_leaves_out() {
    let screen = text::screen(&full(), 80);
    assert!(screen.lines().count() <= 21, "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    assert_eq!(screen.lines().last(), Some("the answer"));
    assert_eq!(screen.matches("warning: ").count(), 3, "{screen}");
    assert!(screen.contains("more with --details: 4 warnings"), "{screen}");
    assert_eq!(screen.matches("fact …; the whole help").count(), 3, "{screen}");
    assert!(!screen.contains("not on a screen"), "{screen}");
    let whole = text::render(&full(), Some(80));
    assert_eq!(whole.matches("warning: ").count(), 7, "{whole}");
    assert!(whole.contains("p99.9 µs") && whole.contains("max µs"), "{whole}");
    assert_eq!(whole.matches("not on a screen").count(), 2, "{whole}");
}

#[test]
fn a_fact_is_cut_after_a_clause() {
    let fact =
        "cpu read: the buffers use 4 KiB pages, so that all of the large transfers are split";
    let mut document = Document::new("the answer");
    document.warnings = vec![warning(&fact.repeat(3), &"remedy ".repeat(24)); 3];
    let screen = text::screen(&document, 80);
    assert!(screen.contains("use 4 KiB pages …; remedy remedy"), "{screen}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn a_remedy_is_shown_whole_or_not_at_all(
        notes in prop::collection::vec(("[a-z]{1,9}([,;]? [a-z]{1,9}){0,30}", 1..40_usize), 1..12),
        vital in any::<bool>(),
    ) {
        let flat = |text: &str| text.split_whitespace().collect::<String>();
        let remedies = notes.iter().enumerate().map(|(nth, (_, words))| {
            format!("BEGIN{nth}{}END{nth}.", " remedy".repeat(*words))
        });
        let remedies: Vec<String> = remedies.collect();
        let mut document = full();
        document.warnings.clear();
        for ((fact, _), remedy) in notes.iter().zip(&remedies) {
            document.warnings.push(warning(fact, remedy));
            if let Some(table) = &mut document.sections[0].table {
                table.footnotes = vec![format!("{fact}; {remedy}")];
            }
        }
        if vital {
            document.warnings[0].kind = WarningKind::Retried;
        }
        let screen = flat(&text::screen(&document, 80));
        for (nth, remedy) in remedies.iter().enumerate() {
            let begun = screen.matches(&format!("BEGIN{nth}r")).count();
            prop_assert_eq!(begun, screen.matches(&flat(remedy)).count(), "{}", screen);
        }
    }
}

#[test]
fn the_load_of_others_is_among_the_warnings_of_a_screen() {
    let mut document = Document::new("the answer");
    document.warn(&[
        Warning::new(WarningKind::NotComparable, "an epoch has 7 steps", "raise --steps"),
        Warning::new(WarningKind::NotComparable, "a checkpoint has 10 KiB", ""),
        Warning::new(WarningKind::DebugBuild, "this is a debug build", ""),
        Warning::new(WarningKind::OthersLoad, "other programs used 1.5 CPUs", ""),
        Warning::new(WarningKind::NotDirect, "O_DIRECT was refused", ""),
    ]);
    let screen = text::screen(&document, 80);
    let told: Vec<&str> = screen.lines().take(3).collect();
    assert_eq!(
        told,
        [
            "warning: O_DIRECT was refused",
            "warning: other programs used 1.5 CPUs",
            "warning: an epoch has 7 steps; raise --steps",
        ]
    );
}

#[test]
fn messages_are_wrapped_between_words() {
    let message = "error: it has 51 files\n\n  tip: --bs is --io-size here";
    let wrapped = "error: it has 51\n  files\n\n  tip: --bs is\n    --io-size here";
    assert_eq!(text::wrapped(message, 20), wrapped);
    assert_eq!(text::wrapped(message, 80), message);
}

#[test]
fn a_screen_shows_each_setting_that_varies_and_says_the_others_once() {
    let screen = text::screen(&full(), 60);
    let header = screen.lines().find(|line| line.contains("depth")).unwrap();
    assert!(header.contains("path") && !header.contains(" op "), "{screen}");
    assert!(screen.contains("op read\n"), "{screen}");
    assert!(screen.contains("columns"), "what is hidden is counted: {screen}");
}

/// A document in which all text comes from untrusted input.
fn named(name: &str) -> Document {
    let mut document = Document::new(name);
    document.facts.add(name, name);
    let mut table = Table::new([Column::words(name, 0), Column::numbers("n", 1)]);
    table.row(name, vec![name.into(), Quantity::neutral(1.0, "").into()]);
    table.row(name, vec![Cell::Text(name.repeat(30))]);
    table.footnote(name.to_string());
    document.section(name, Some(table)).lines = vec![name.to_string()];
    document.warnings = vec![warning(name, "")];
    document.records =
        Records { columns: vec!["name", "n"], rows: vec![vec![name.into(), 1.into()]] };
    document
}

/// The cells of a Markdown row, split as by Markdown parsers.
fn split(row: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut letters = row.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => cells.last_mut().unwrap().extend(letters.next()),
            '|' => cells.push(String::new()),
            other => cells.last_mut().unwrap().push(other),
        }
    }
    cells
}

proptest! {
    #[test]
    fn names_cannot_break_a_table(name in "\\PC{0,40}|[|\\\\<>*\"',;\n\r\t #=`-]{0,12}") {
        let document = named(&name);
        let page = markdown::render(&document);
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).collect();
        prop_assert_eq!(rows.len(), 4, "{}", page);
        for row in &rows {
            prop_assert_eq!(split(row).len(), 4, "{}", row);
        }
        let shown = printable(&name);
        prop_assert_eq!(&split(rows[2])[1], &format!(" {shown} "));

        let rows = csv::render(&document, true).unwrap();
        let mut reader = ::csv::Reader::from_reader(rows.as_bytes());
        let back: Vec<_> = reader.records().map(Result::unwrap).collect();
        prop_assert_eq!(back.len(), 1);
        // Text that a spreadsheet would compute is marked as text.
        let mark = if name.starts_with(['=', '+', '-', '@']) { "'" } else { "" };
        prop_assert_eq!(&back[0][0], format!("{mark}{shown}"));

        let text = text::render(&document, Some(80));
        prop_assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{:?}", text);
    }
}
