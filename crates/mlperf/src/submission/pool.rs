//! The pool of source images, by the rules of v3.0's checker: CHECK-01, CHECK-03 and CHECK-04.

use std::collections::BTreeSet;

use super::provenance;
use super::rule::{Finding, Official, failed};
use super::structure::of_package;
use super::survey::{DIVISIONS, Submission};
use super::tree::{CODE_HASH, Tree, join};

/// The file that marks a folder as a pool of images.
const SENTINEL: &str = ".mlps-image-pool";
/// Where images lie since the pool belongs to all organisations.
const COMMON_POOL: &str = "code-images";

/// The folders at the top of a package that hold images of source code. In v3.0 as published, these are
/// folders of organisations.
pub(super) fn pools(tree: &Tree) -> Vec<&str> {
    let is_pool = |name: &&str| {
        !DIVISIONS.contains(name)
            && (*name == COMMON_POOL || is_marked(tree, name) || !images(tree, name).is_empty())
    };
    tree.folders("").into_iter().filter(is_pool).collect()
}

fn is_marked(tree: &Tree, pool: &str) -> bool {
    tree.get(&join(pool, SENTINEL)).is_some()
}

/// The images in `pool`.
fn images(tree: &Tree, pool: &str) -> Vec<String> {
    let names = tree.folders(pool).into_iter().filter(|name| name.starts_with("code-"));
    names.map(|name| join(pool, name)).collect()
}

/// The folders of all runs.
fn runs(submission: &Submission) -> impl Iterator<Item = &str> {
    let others = submission.other_runs.iter().map(|run| run.path.as_str());
    submission.leaves().map(|leaf| leaf.path.as_str()).chain(others)
}

/// A rule about the pool of a package; a rehearsal has no source.
fn of_pool(
    submission: &Submission,
    check: impl FnOnce(&mut Vec<Finding>) -> String,
) -> Vec<Finding> {
    match submission.rehearsal() {
        Some(_) => Vec::new(),
        None => of_package(submission, check),
    }
}

/// CHECK-01: each run names the image of the source that it ran. Rule 2.1.6 looks for the image.
pub(super) fn pointers(submission: &Submission) -> Vec<Finding> {
    of_pool(submission, |faults| {
        let named = |path: &&str| provenance::image_at(submission, path).is_some();
        faults.extend(runs(submission).filter(|path| !named(path)).map(|path| {
            let fact = "it has no .mlps-code-image that names the source it ran";
            failed(path, fact, "copy it from the results folder that mlpstorage wrote")
        }));
        "each run names the source that it ran".to_string()
    })
}

/// CHECK-03: each image is of a run.
pub(super) fn orphans(submission: &Submission) -> Vec<Finding> {
    let tree = &submission.tree;
    of_pool(submission, |faults| {
        let named = runs(submission).filter_map(|path| provenance::image_at(submission, path));
        let named: BTreeSet<String> = named.collect();
        for image in pools(tree).into_iter().flat_map(|pool| images(tree, pool)) {
            let record = tree.json(&join(&image, CODE_HASH));
            // Another rule reports what cannot be read.
            let Some(hash) = record.value()["hash"].as_str() else { continue };
            let is_it =
                |named: &String| hash.starts_with(named.as_str()) || named.starts_with(hash);
            if !named.iter().any(is_it) {
                let remedy = "remove it, or add the runs that it made";
                faults.push(failed(image, "no run names this image of source code", remedy));
            }
        }
        "a run names each image".to_string()
    })
}

/// CHECK-04: images lie in a marked pool, not in folders `code` as in earlier layouts.
pub(super) fn layout(submission: &Submission) -> Vec<Finding> {
    let tree = &submission.tree;
    of_pool(submission, |faults| {
        faults.extend(earlier_places(submission).into_iter().map(|path| {
            let fact = "a folder of source code in a place of earlier layouts";
            let remedy = "remove it: images lie in the pool, as code-HASH";
            failed(path, fact, remedy)
        }));
        for pool in pools(tree) {
            match (is_marked(tree, pool), images(tree, pool).is_empty()) {
                (false, false) => {
                    let fact = format!("it holds images of source code, but no {SENTINEL}");
                    let remedy = "copy the pool from the results folder, with its hidden files";
                    faults.push(failed(pool, fact, remedy));
                }
                (true, true) => {
                    let fact = format!("it has a {SENTINEL}, but no image");
                    let remedy = "add the images of the runs, or remove it";
                    faults.push(failed(pool, fact, remedy).officially(Official::Warns));
                }
                _ => {}
            }
        }
        "images lie in a marked pool".to_string()
    })
}

/// The folders `code` of organisations, and of their results.
fn earlier_places(submission: &Submission) -> Vec<String> {
    let tree = &submission.tree;
    let below = |paths: Vec<String>| -> Vec<String> {
        let inside = |path: &String| {
            let names = tree.folders(path).into_iter().filter(|name| *name != "code");
            names.map(|name| join(path, name)).collect::<Vec<_>>()
        };
        paths.iter().flat_map(inside).collect()
    };
    let organisations = submission.organisations();
    let results = organisations.iter().map(|organisation| join(organisation, "results"));
    let benchmarks = below(below(results.collect()));
    let models = below(benchmarks.clone());
    let holders = organisations.into_iter().chain(benchmarks).chain(models);
    let places = holders.map(|holder| join(&holder, "code"));
    places.filter(|place| tree.get(place).is_some()).collect()
}
