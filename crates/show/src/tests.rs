//! Documents in every output format at typical terminal widths.

use proptest::prelude::*;
use stormlp_core::printable::printable;

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
    let mut document = Document::new("");
    document.warnings = vec![format!("{path} is long")];
    let broken = format!(
        "\nwarning: /data/\n  {}/\n  {}\n  {} is long\n",
        "a".repeat(30),
        "b".repeat(31),
        "b".repeat(19)
    );
    assert_eq!(text::render(&document, Some(40)), broken);
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
    document.warnings = vec![name.to_string()];
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
        prop_assert_eq!(&back[0][0], &*shown);

        let text = text::render(&document, Some(80));
        prop_assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{:?}", text);
    }
}
