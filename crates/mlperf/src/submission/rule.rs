//! Rules and their findings.

use serde::Serialize;

use super::leaf::Leaf;
use super::survey::{RunGroup, Submission, TreeShape};

/// Remedies that many rules share.
pub(super) const COPY_FILES: &str =
    "copy summary.json, metadata and overrides.yaml again as the tool wrote them";
pub(super) const COPY_METADATA: &str = "copy the metadata again as mlpstorage wrote it";
pub(super) const COPY_FROM_RESULTS: &str = "copy it from the results folder that mlpstorage wrote";
pub(super) const PUT_TOGETHER: &str = "check the whole package once it is put together";

/// MLCommons' checker's reaction to a broken rule, by its code and by published results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Official {
    /// It reports an error.
    Fails,
    /// It reports a warning; results with such warnings were published.
    Warns,
    /// It does not check, or only logs.
    Silent,
}

/// How a finding counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum FindingKind {
    /// The rule holds.
    #[serde(rename = "passed")]
    Passed,
    /// The rule holds, and only the open division allows it.
    #[serde(rename = "passed")]
    PassedOpen,
    /// The rule is broken.
    #[serde(rename = "failed")]
    Failed,
    /// It is broken where MLCommons only warns, or where stormlp asks for more than the rules do;
    /// the verdict does not depend on it.
    #[serde(rename = "warned")]
    Warned,
    /// The tree does not show it, and there is no verdict without it.
    #[serde(rename = "not_checkable")]
    Unknown,
    /// The tree does not show it, or stormlp does not check it, and the verdict does not depend on it.
    #[serde(rename = "not_checkable")]
    Advice,
}

/// The finding of a rule at one place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The rule's number; `stormlp.…` for stormlp's rules.
    pub id: &'static str,
    /// The rule's name in the rules of v3.0.
    pub name: &'static str,
    /// How it counts.
    #[serde(rename = "result")]
    pub kind: FindingKind,
    /// Where, below the tree that was given.
    pub path: String,
    /// The fact found.
    #[serde(rename = "evidence")]
    pub fact: String,
    /// How to fix it; empty if no fix is needed.
    pub remedy: String,
    /// The official checker's reaction, if it differs from the rule's line in the table.
    pub official: Option<Official>,
}

impl Finding {
    fn new(
        kind: FindingKind,
        at: impl AsRef<str>,
        fact: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let (path, fact, remedy) = (at.as_ref().to_string(), fact.into(), remedy.into());
        Self { id: "", name: "", kind, path, fact, remedy, official: None }
    }

    /// The same where the official checker differs from the rule's line in the table.
    pub(super) fn officially(self, official: Official) -> Self {
        Self { official: Some(official), ..self }
    }
}

/// The rule holds.
pub(super) fn passed(at: impl AsRef<str>, fact: impl Into<String>) -> Finding {
    Finding::new(FindingKind::Passed, at, fact, "")
}

/// The rule holds in the open division alone.
pub(super) fn passed_open(at: impl AsRef<str>, fact: impl Into<String>) -> Finding {
    Finding::new(FindingKind::PassedOpen, at, fact, "")
}

/// The rule is broken.
pub(super) fn failed(
    at: impl AsRef<str>,
    fact: impl Into<String>,
    remedy: impl Into<String>,
) -> Finding {
    Finding::new(FindingKind::Failed, at, fact, remedy)
}

/// A wish of stormlp beyond the rules as MLCommons applies them.
pub(super) fn wish(
    at: impl AsRef<str>,
    fact: impl Into<String>,
    remedy: impl Into<String>,
) -> Finding {
    Finding::new(FindingKind::Warned, at, fact, remedy).officially(Official::Silent)
}

/// The tree does not show it, and there is no verdict without it.
pub(super) fn unknown(
    at: impl AsRef<str>,
    fact: impl Into<String>,
    remedy: impl Into<String>,
) -> Finding {
    Finding::new(FindingKind::Unknown, at, fact, remedy)
}

/// The tree does not show it, and the verdict does not depend on it: only a package has it, or
/// another rule reports it.
pub(super) fn advice(
    at: impl AsRef<str>,
    fact: impl Into<String>,
    remedy: impl Into<String>,
) -> Finding {
    Finding::new(FindingKind::Advice, at, fact, remedy)
}

/// Passed or failed.
pub(super) fn holds(
    ok: bool,
    at: impl AsRef<str>,
    fact: impl Into<String>,
    remedy: impl Into<String>,
) -> Finding {
    if ok { passed(at, fact) } else { failed(at, fact, remedy) }
}

/// The `faults`; without any, the rule holds.
pub(super) fn or_passed(
    faults: impl IntoIterator<Item = Finding>,
    at: impl AsRef<str>,
    fact: impl Into<String>,
) -> Vec<Finding> {
    let faults: Vec<Finding> = faults.into_iter().collect();
    if faults.is_empty() { vec![passed(at, fact)] } else { faults }
}

/// A rule about a package; a results folder alone is not checked. `check` adds faults, and returns
/// the fact that stands where there are none.
pub(super) fn package_rule(
    submission: &Submission,
    check: impl FnOnce(&mut Vec<Finding>) -> String,
) -> Vec<Finding> {
    if submission.shape == TreeShape::Results {
        let fact = "a results folder without closed/ or open/ above it";
        return vec![advice("", fact, PUT_TOGETHER)];
    }
    let mut faults = Vec::new();
    let fact = check(&mut faults);
    or_passed(faults, "", fact)
}

/// The findings of `check` in each run; unknown without a finding in any.
pub(super) fn each_run(group: &RunGroup, check: impl Fn(&Leaf) -> Option<Finding>) -> Vec<Finding> {
    let findings: Vec<Finding> = group.runs.iter().filter_map(check).collect();
    if findings.is_empty() {
        let fact = "summary.json and metadata do not have the figures";
        return vec![unknown(group, fact, COPY_FILES)];
    }
    findings
}

/// The findings of a rule about a result.
pub(super) type GroupCheck = fn(&Submission, &RunGroup) -> Vec<Finding>;

/// The subject of a rule.
#[derive(Clone, Copy)]
pub(super) enum Check {
    Tree(fn(&Submission) -> Vec<Finding>),
    Training(GroupCheck),
    Checkpoints(GroupCheck),
    /// Every result of DLIO's benchmarks, training and checkpointing.
    Dlio(GroupCheck),
    KvCache(GroupCheck),
    VectorDatabase(GroupCheck),
    /// No subject: rules of these subjects are left to the official checker.
    Omitted(&'static str),
}

/// A rule: its number and name in the rules of v3.0, the official checker's reaction to a breach,
/// and the check.
pub(super) type Rule = (&'static str, &'static str, Official, Check);
