//! A rule, and what it came to on a tree.

use serde::Serialize;

use super::survey::{Edition, Group, Submission};

/// What the official checker does about a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Official {
    /// It finds the same.
    Same,
    /// It does not look, or only writes it down.
    Silent,
    /// It asks for more than what is checked here.
    Stricter,
}

/// What a rule came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleResult {
    /// It is kept.
    Passed,
    /// It is broken.
    Failed,
    /// The tree does not tell.
    NotCheckable,
}

/// A rule at a place, as it is reported.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The rule's number; `stormlp.…` for what no rule says.
    pub id: String,
    /// The rule's name in the rules of v3.0.
    pub name: &'static str,
    /// What it came to.
    pub result: RuleResult,
    /// Where, below the tree that was given.
    pub path: String,
    /// What was found.
    pub evidence: String,
    /// What mends it; empty where there is nothing to mend.
    pub remedy: String,
    /// What the official checker does about it.
    pub official: Official,
}

/// What a check says of one place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    pub(super) result: RuleResult,
    pub(super) path: String,
    pub(super) evidence: String,
    pub(super) remedy: String,
    /// Where the official checker differs from what it usually does about the rule.
    pub(super) official: Option<Official>,
    /// It is kept, and makes the result one of the open division.
    pub(super) open: bool,
    /// It cannot be checked, and no verdict can be given without it.
    pub(super) holds_up: bool,
}

impl Outcome {
    pub(super) fn passed(path: &str, evidence: impl Into<String>) -> Self {
        Self::new(RuleResult::Passed, path, evidence.into(), String::new())
    }

    pub(super) fn failed(
        path: &str,
        evidence: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(RuleResult::Failed, path, evidence.into(), remedy.into())
    }

    /// What the tree does not tell. Without it there is no verdict.
    pub(super) fn unknown(
        path: &str,
        evidence: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let remedy = remedy.into();
        let mut outcome = Self::new(RuleResult::NotCheckable, path, evidence.into(), remedy);
        outcome.holds_up = true;
        outcome
    }

    /// What the tree does not tell, and what no verdict waits for: advice, and what another rule or
    /// the package around the results is asked for.
    pub(super) fn noted(
        path: &str,
        evidence: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { holds_up: false, ..Self::unknown(path, evidence, remedy) }
    }

    /// What must be there and is not: a fault, but for files of stormlp's, which need not have it.
    pub(super) fn lacking(
        is_rehearsal: bool,
        path: &str,
        evidence: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        if is_rehearsal {
            Self::noted(path, evidence, remedy)
        } else {
            Self::failed(path, evidence, remedy)
        }
    }

    /// Kept or broken.
    pub(super) fn of(holds: bool, path: &str, evidence: impl Into<String>, remedy: &str) -> Self {
        if holds { Self::passed(path, evidence) } else { Self::failed(path, evidence, remedy) }
    }

    fn new(result: RuleResult, path: &str, evidence: String, remedy: String) -> Self {
        Self {
            result,
            path: path.to_string(),
            evidence,
            remedy,
            official: None,
            open: false,
            holds_up: false,
        }
    }

    /// The same where the official checker does otherwise than usual.
    pub(super) fn officially(mut self, official: Official) -> Self {
        self.official = Some(official);
        self
    }

    /// The same for a result of the open division.
    pub(super) fn open(mut self) -> Self {
        self.open = true;
        self
    }
}

/// What a rule looks at.
#[derive(Clone, Copy)]
pub(super) enum Check {
    /// The tree.
    Tree(fn(&Submission) -> Vec<Outcome>),
    /// Each result of training.
    Training(fn(&Submission, &Group) -> Vec<Outcome>),
    /// Each result of checkpointing.
    Checkpointing(fn(&Submission, &Group) -> Vec<Outcome>),
    /// Each result.
    Any(fn(&Submission, &Group) -> Vec<Outcome>),
}

/// A rule: its numbers in the editions that have it, and what their official tools do about it.
pub(super) struct Rule {
    pub(super) name: &'static str,
    pub(super) v2: Option<(&'static str, Official)>,
    pub(super) v3: Option<(&'static str, Official)>,
    pub(super) check: Check,
}

impl Rule {
    /// Its number, and what the official tool does about it.
    pub(super) fn of(&self, edition: Edition) -> Option<(&'static str, Official)> {
        match edition {
            Edition::V2 => self.v2,
            Edition::V3 => self.v3,
        }
    }
}

/// The outcomes that failed, or else one that says that all is well.
pub(super) fn or_passed(
    faults: Vec<Outcome>,
    path: &str,
    evidence: impl FnOnce() -> String,
) -> Vec<Outcome> {
    if faults.is_empty() { vec![Outcome::passed(path, evidence())] } else { faults }
}
