//! What `stormlp submission rehearse` writes beside what the rules ask for: the stamp of each run and
//! the table of a result, which say that they are a rehearsal's.

use super::REHEARSAL_ORGANISATION;
use super::leaf::{Leaf, plain};
use super::rule::{Outcome, or_passed};
use super::survey::{Group, Submission};
use super::tree::{Content, Entry, Part, join};

const AGAIN: &str = "take it as `stormlp submission rehearse` wrote it, or rehearse again";

/// Stamps and table of a rehearsed result; nothing of others.
pub(super) fn files(submission: &Submission, group: &Group) -> Vec<Outcome> {
    if !group.path.split('/').any(|part| part == REHEARSAL_ORGANISATION) {
        return Vec::new();
    }
    let stamped = group.runs.iter().chain(&group.datagen);
    let mut faults: Vec<Outcome> = stamped.filter_map(stamp).collect();
    faults.extend(table(submission, group));
    or_passed(faults, &group.path, || "stamps and results.csv are there, and say so".to_string())
}

/// What is wrong with the stamp of a run.
fn stamp(leaf: &Leaf) -> Option<Outcome> {
    let place = join(&leaf.path, "provenance.json");
    let evidence = match &leaf.provenance {
        Part::Absent => "it is not there".to_string(),
        Part::Broken { why, .. } => format!("it cannot be used: {why}"),
        Part::Found { value, .. } => {
            let tool = &value["tool"]["name"];
            if tool == "stormlp" {
                return None;
            }
            format!("its tool is {}, not stormlp", plain(tool))
        }
    };
    Some(Outcome::failed(&place, evidence, AGAIN))
}

/// What is wrong with the table of a result: each of its rows says what it is.
fn table(submission: &Submission, group: &Group) -> Option<Outcome> {
    let place = join(&group.run_folder(), "results.csv");
    let evidence = match submission.tree.get(&place) {
        None => "it is not there".to_string(),
        Some(Entry::File { content: Content::Head(text), .. }) => {
            let mut rows = text.lines().skip(1).filter(|row| !row.trim().is_empty());
            let mark = format!("REHEARSAL,{REHEARSAL_ORGANISATION},REHEARSAL,");
            match rows.next() {
                None => "it has no row".to_string(),
                Some(first) => {
                    let mut all = std::iter::once(first).chain(rows);
                    if all.all(|row| row.starts_with(&mark)) {
                        return None;
                    }
                    "a row does not say that it is a REHEARSAL".to_string()
                }
            }
        }
        Some(Entry::File { content: Content::Unreadable(why), .. }) => {
            format!("it cannot be read: {why}")
        }
        Some(_) => "it is no regular file".to_string(),
    };
    Some(Outcome::failed(&place, evidence, AGAIN))
}
