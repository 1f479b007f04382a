//! Every rule on a tree, and the verdict that follows.

use serde::Serialize;

use super::rule::Check::{Any, Checkpointing, Training, Tree as OfTree};
use super::rule::Official::{Same, Silent, Stricter};
use super::rule::{Finding, Outcome, Rule, RuleResult};
use super::survey::{Category, Edition, Shape, Submission};
use super::{
    agreement, checkpointing, files, paths, provenance, rehearsed, report_file, scored, strays,
    structure, sums, systems, training,
};

/// What the rules say of a tree as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// A rule is broken.
    Invalid,
    /// No rule is broken that can be checked, and one cannot that the verdict rests on.
    Incomplete,
    /// Every rule that the verdict rests on is kept, and something is free in the open division alone.
    Open,
    /// Every rule that the verdict rests on is kept.
    Closed,
    /// No rule is broken that a rehearsal can keep. It is no submission.
    Rehearsal,
}

/// What came of checking a tree.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckReport {
    /// The verdict by the rules' own logic.
    pub verdict: Verdict,
    /// The edition of the rules.
    pub edition: Edition,
    /// How the edition is known.
    pub edition_from: String,
    /// How the tree is laid out.
    pub shape: Shape,
    /// How it is known that stormlp made it; `null` for other trees.
    pub rehearsal: Option<String>,
    /// The rules that cannot be checked and that a verdict rests on.
    pub held_up_by: Vec<String>,
    /// The results that were found, `training unet3d`.
    pub results: Vec<String>,
    /// Each rule at each place, in the order of the rules.
    pub rules: Vec<Finding>,
}

impl CheckReport {
    /// How many rules came to `result`.
    pub fn count(&self, result: RuleResult) -> usize {
        self.rules.iter().filter(|rule| rule.result == result).count()
    }
}

macro_rules! rule {
    ($name:literal, $v2:expr, $v3:expr, $check:expr) => {
        Rule { name: $name, v2: $v2, v3: $v3, check: $check }
    };
}

/// The rules. v2.0's numbers are those of its submission guidelines, which have fewer.
const RULES: &[Rule] = &[
    rule!(
        "mlpstorageGeneratesHierarchy",
        Some(("5", Silent)),
        Some(("1.1", Silent)),
        OfTree(structure::made_by_the_tool)
    ),
    rule!("submitterRootDirectory", None, Some(("2.1.1", Same)), OfTree(structure::submitter)),
    rule!(
        "topLevelSubdirectories",
        Some(("11.3", Silent)),
        Some(("2.1.2", Same)),
        OfTree(structure::top_level)
    ),
    rule!(
        "requiredSubdirectories",
        Some(("11.1", Silent)),
        Some(("2.1.5", Same)),
        OfTree(structure::subdirectories)
    ),
    rule!(
        "codeDirectoryContents",
        Some(("11.1", Silent)),
        Some(("2.1.6", Same)),
        OfTree(structure::code)
    ),
    rule!(
        "systemsDirectoryFiles",
        Some(("11.4", Silent)),
        Some(("2.1.7", Same)),
        OfTree(systems::systems)
    ),
    rule!(
        "resultsDirectorySystems",
        Some(("11.3", Silent)),
        Some(("2.1.8", Same)),
        OfTree(structure::results)
    ),
    rule!("identicalSystemConfig", None, Some(("2.1.9", Same)), OfTree(structure::identical)),
    rule!("workloadCategories", None, Some(("2.1.10", Same)), OfTree(structure::categories)),
    rule!(
        "trainingWorkloads",
        Some(("2.1", Silent)),
        Some(("2.1.11", Same)),
        Training(structure::workloads)
    ),
    rule!("trainingPhases", None, Some(("2.1.12", Same)), Training(structure::phases)),
    rule!("datagenTimestamp", None, Some(("2.1.13", Same)), Training(files::one_datagen)),
    rule!(
        "datagenFiles",
        Some(("11.1", Silent)),
        Some(("2.1.14", Stricter)),
        Training(files::datagen_files)
    ),
    rule!("datagenDlioConfig", None, Some(("2.1.15", Same)), Training(files::datagen_config)),
    rule!(
        "runResultsJson",
        Some(("11.1", Silent)),
        Some(("2.1.16", Same)),
        Training(files::results_json)
    ),
    rule!(
        "runTimestamps",
        Some(("6.6", Silent)),
        Some(("2.1.17", Same)),
        Training(files::run_count)
    ),
    rule!("runTimestampGap", Some(("6.6", Silent)), Some(("2.1.18", Same)), Training(files::gaps)),
    rule!("runFiles", Some(("11.1", Silent)), Some(("2.1.19", Same)), Training(files::run_files)),
    rule!("runDlioConfig", None, Some(("2.1.20", Same)), Training(files::run_config)),
    rule!(
        "checkpointingWorkloads",
        Some(("2.2.1", Silent)),
        Some(("2.1.21", Same)),
        Checkpointing(structure::workloads)
    ),
    rule!(
        "checkpointingResultsJson",
        Some(("11.1", Silent)),
        Some(("2.1.22", Same)),
        Checkpointing(files::results_json)
    ),
    rule!(
        "checkpointingTimestamps",
        None,
        Some(("2.1.23", Same)),
        Checkpointing(files::checkpoint_count)
    ),
    rule!(
        "checkpointingTimestampGap",
        None,
        Some(("2.1.24", Same)),
        Checkpointing(checkpointing::gap)
    ),
    rule!(
        "checkpointingFiles",
        Some(("11.1", Silent)),
        Some(("2.1.25", Same)),
        Checkpointing(files::run_files)
    ),
    rule!(
        "checkpointingDlioConfig",
        None,
        Some(("2.1.26", Same)),
        Checkpointing(files::run_config)
    ),
    rule!(
        "trainingVerifyDatasizeUsage",
        Some(("7", Silent)),
        Some(("3.1.1", Same)),
        Training(training::sized)
    ),
    rule!(
        "trainingRecalculateDatasetSize",
        Some(("6.6", Same)),
        Some(("3.1.2", Same)),
        Training(training::large_enough)
    ),
    rule!(
        "trainingDatagenMinimumSize",
        Some(("7", Silent)),
        Some(("3.2.1", Same)),
        Training(training::generated)
    ),
    rule!(
        "trainingRunDataMatchesDatasize",
        Some(("7", Silent)),
        Some(("3.3.1", Same)),
        Training(training::used)
    ),
    rule!(
        "trainingAcceleratorUtilizationCheck",
        Some(("2.1", Silent)),
        Some(("3.3.2", Same)),
        Training(training::utilisation)
    ),
    rule!(
        "trainingSingleHostSimulatedAccelerators",
        Some(("8", Silent)),
        Some(("3.3.3", Same)),
        Training(training::single_host_load)
    ),
    rule!(
        "trainingSingleHostClientLimit",
        Some(("8", Silent)),
        Some(("3.3.4", Same)),
        Training(training::hosts)
    ),
    rule!(
        "trainingIdenticalAcceleratorsPerNode",
        Some(("9", Silent)),
        Some(("3.3.6", Same)),
        Training(training::even)
    ),
    rule!(
        "trainingNodeCapabilityConsistency",
        None,
        Some(("3.3.7", Silent)),
        Training(training::alike)
    ),
    rule!("trainingMlpstoragePathArgs", None, Some(("3.4.1", Same)), Training(paths::paths)),
    rule!(
        "trainingMlpstorageFilesystemCheck",
        None,
        Some(("3.4.2", Same)),
        Training(paths::file_systems)
    ),
    rule!(
        "trainingClosedSubmissionParameters",
        Some(("10.1", Same)),
        Some(("3.6.2", Silent)),
        Training(training::parameters)
    ),
    rule!(
        "trainingCheckpointInRun",
        Some(("2.1", Same)),
        None,
        Training(training::checkpoint_in_run)
    ),
    rule!(
        "checkpointDataSizeRatio",
        Some(("2.2.2", Silent)),
        Some(("4.3.1", Stricter)),
        Checkpointing(checkpointing::beyond_memory)
    ),
    rule!(
        "checkpointFsyncVerification",
        Some(("2.2.2", Silent)),
        Some(("4.3.2", Same)),
        Checkpointing(checkpointing::synced)
    ),
    rule!(
        "checkpointModelConfigurationReq",
        Some(("2.2.1", Silent)),
        Some(("4.3.3", Same)),
        Checkpointing(checkpointing::known_model)
    ),
    rule!(
        "checkpointAggregateAcceleratorMemory",
        None,
        Some(("4.3.4", Stricter)),
        Checkpointing(checkpointing::fits_accelerators)
    ),
    rule!(
        "checkpointSubsetRunValidation",
        Some(("2.2.2", Silent)),
        Some(("4.3.5", Same)),
        Checkpointing(checkpointing::subset)
    ),
    rule!("checkpointPathArgs", None, Some(("4.4.1", Same)), Checkpointing(paths::paths)),
    rule!(
        "checkpointFilesystemCheck",
        None,
        Some(("4.4.2", Same)),
        Checkpointing(paths::file_systems)
    ),
    rule!(
        "checkpointClosedMpiProcesses",
        Some(("2.2.5", Silent)),
        Some(("4.6.1", Same)),
        Checkpointing(checkpointing::rank_count)
    ),
    rule!(
        "checkpointClosedAcceleratorsPerHost",
        Some(("2.2.5", Silent)),
        Some(("4.6.2", Silent)),
        Checkpointing(checkpointing::ranks_of_host)
    ),
    rule!(
        "checkpointClosedCheckpointParameters",
        Some(("2.2.5", Silent)),
        Some(("4.6.3", Silent)),
        Checkpointing(checkpointing::parameters)
    ),
    rule!(
        "checkpointOpenSubmissionScaling",
        Some(("2.2.5", Silent)),
        Some(("4.6.4", Silent)),
        Checkpointing(checkpointing::open_rank_count)
    ),
    rule!(
        "checkpointCacheFlushValidation",
        Some(("2.2.5", Silent)),
        Some(("4.7.1", Same)),
        Checkpointing(checkpointing::order)
    ),
    rule!(
        "checkpointTotalTestDuration",
        None,
        Some(("4.7.2", Same)),
        Checkpointing(checkpointing::duration)
    ),
    rule!("otherBenchmarks", None, Some(("5-6", Stricter)), OfTree(structure::others)),
    rule!("leafProvenance", None, Some(("PROV-01", Same)), Any(provenance::stamps)),
    rule!("submissionManifest", None, Some(("PROV-02", Same)), OfTree(provenance::manifest)),
    rule!(
        "scoredFiguresAreThere",
        Some(("stormlp.scored", Silent)),
        Some(("stormlp.scored", Silent)),
        Any(scored::complete)
    ),
    rule!(
        "filesCanBeRead",
        Some(("stormlp.files", Silent)),
        Some(("stormlp.files", Silent)),
        OfTree(agreement::readable)
    ),
    rule!(
        "foldersBelongToResults",
        Some(("stormlp.folders", Silent)),
        Some(("stormlp.folders", Silent)),
        OfTree(agreement::placed)
    ),
    rule!(
        "runsAreOfOneEdition",
        Some(("stormlp.edition", Silent)),
        Some(("stormlp.edition", Silent)),
        OfTree(agreement::editions)
    ),
    rule!(
        "verificationFitsDivision",
        Some(("stormlp.verification", Silent)),
        Some(("stormlp.verification", Silent)),
        Any(agreement::verification)
    ),
    rule!(
        "filesSayTheSame",
        Some(("stormlp.agreement", Silent)),
        Some(("stormlp.agreement", Silent)),
        Any(agreement::agree)
    ),
    rule!(
        "sumsAgree",
        Some(("stormlp.sums", Silent)),
        Some(("stormlp.sums", Silent)),
        Any(sums::sums)
    ),
    rule!(
        "reportIsOfTheRuns",
        Some(("stormlp.report", Silent)),
        Some(("stormlp.report", Silent)),
        Any(report_file::reported)
    ),
    rule!(
        "rehearsalSaysSo",
        Some(("stormlp.rehearsal", Silent)),
        Some(("stormlp.rehearsal", Silent)),
        Any(rehearsed::files)
    ),
    rule!(
        "noOtherFiles",
        Some(("stormlp.strays", Silent)),
        Some(("stormlp.strays", Silent)),
        OfTree(strays::strays)
    ),
];

/// Holds a tree against the rules of its edition.
pub fn check(submission: &Submission) -> CheckReport {
    let mut rules = Vec::new();
    let mut held_up_by: Vec<String> = Vec::new();
    let mut is_open = false;
    for rule in RULES {
        let Some((id, official)) = rule.of(submission.edition) else {
            continue;
        };
        for outcome in outcomes(rule, submission) {
            is_open |= outcome.open;
            if outcome.holds_up && !held_up_by.iter().any(|known| known == id) {
                held_up_by.push(id.to_string());
            }
            rules.push(Finding {
                id: id.to_string(),
                name: rule.name,
                result: outcome.result,
                path: outcome.path,
                evidence: outcome.evidence,
                remedy: outcome.remedy,
                official: outcome.official.unwrap_or(official),
            });
        }
    }
    let rehearsal = submission.rehearsal();
    let failed = rules.iter().any(|rule| rule.result == RuleResult::Failed);
    let in_open = submission.groups.iter().any(|group| group.division.as_deref() == Some("open"));
    let verdict = match (failed, &rehearsal) {
        (true, _) => Verdict::Invalid,
        (false, Some(_)) => Verdict::Rehearsal,
        (false, None) if !held_up_by.is_empty() => Verdict::Incomplete,
        (false, None) if is_open || in_open => Verdict::Open,
        (false, None) => Verdict::Closed,
    };
    let results = submission.groups.iter().map(|group| {
        let what = match group.category {
            Category::Training => "training",
            Category::Checkpointing => "checkpointing",
        };
        format!("{what} {}", group.model)
    });
    CheckReport {
        verdict,
        edition: submission.edition,
        edition_from: submission.edition_from.clone(),
        shape: submission.shape,
        rehearsal,
        held_up_by,
        results: results.collect(),
        rules,
    }
}

fn outcomes(rule: &Rule, submission: &Submission) -> Vec<Outcome> {
    let of = |category: Option<Category>| {
        let groups = submission.groups.iter();
        groups.filter(move |group| category.is_none_or(|wanted| group.category == wanted))
    };
    match rule.check {
        OfTree(check) => check(submission),
        Training(check) => {
            let groups = of(Some(Category::Training));
            groups.flat_map(|group| check(submission, group)).collect()
        }
        Checkpointing(check) => {
            let groups = of(Some(Category::Checkpointing));
            groups.flat_map(|group| check(submission, group)).collect()
        }
        Any(check) => of(None).flat_map(|group| check(submission, group)).collect(),
    }
}
