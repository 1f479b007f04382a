//! The table of rules, and the verdict on a tree.

use serde::Serialize;

use super::rule::Check::{Checkpoints, Dlio, KvCache, Omitted, Training, Tree, VectorDatabase};
use super::rule::Official::{Fails, Silent, Warns};
use super::rule::{Check, Finding, FindingKind, Rule, advice};
use super::survey::{Category, DLIO, Submission, TreeShape};
use super::{
    checkpoints, files, kv_cache, paths, recomputed, runs, scored, structure, systems, training,
};

/// The verdict on a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TreeVerdict {
    /// A rule is broken.
    Invalid,
    /// No rule is known to be broken, but one that the verdict needs cannot be checked.
    Incomplete,
    /// All needed rules hold, at least one of them in the open division alone.
    Open,
    /// All needed rules hold.
    Closed,
    /// stormlp made the runs, and no rule that they can keep is broken.
    Rehearsal,
}

/// The result of checking a tree.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckReport {
    /// The verdict.
    pub verdict: TreeVerdict,
    /// The edition of the runs; only 3.0 is checked.
    pub edition: String,
    /// The fact that shows the edition.
    pub edition_from: String,
    /// How the tree is laid out.
    pub shape: TreeShape,
    /// A run that stormlp made; `null` where there is none.
    pub rehearsal: Option<String>,
    /// The rules that cannot be checked and that the verdict needs.
    pub blocked_by: Vec<String>,
    /// The results that were found, such as `training unet3d`.
    pub results: Vec<String>,
    /// The findings of each rule, in the order of the rules.
    pub rules: Vec<Finding>,
}

/// The rules of v3.0, then stormlp's.
const RULES: &[Rule] = &[
    ("1.1", "mlpstorageGeneratesHierarchy", Silent, Tree(structure::made_by_the_tool)),
    ("1.2", "storageBackendEnvVarDeclaration", Silent, Omitted("variables of storage clients")),
    ("2.1.1", "submitterRootDirectory", Fails, Tree(structure::submitter)),
    ("2.1.2", "topLevelSubdirectories", Fails, Tree(structure::top_level)),
    ("2.1.5", "requiredSubdirectories", Fails, Tree(structure::subdirectories)),
    ("2.1.6", "codeDirectoryContents", Fails, Omitted("images of the source code that ran")),
    ("2.1.7", "systemsDirectoryFiles", Fails, Tree(systems::systems)),
    ("2.1.8", "resultsDirectorySystems", Fails, Tree(structure::results)),
    ("2.1.9", "identicalSystemConfig", Fails, Tree(structure::identical)),
    ("2.1.10", "workloadCategories", Fails, Tree(structure::categories)),
    ("2.1.11", "trainingWorkloads", Fails, Training(structure::workloads)),
    ("2.1.12", "trainingPhases", Fails, Training(structure::phases)),
    ("2.1.13", "datagenTimestamp", Fails, Training(files::one_datagen)),
    ("2.1.14", "datagenFiles", Fails, Training(|s, g| files::files(s, g, &g.datagen))),
    ("2.1.15", "datagenDlioConfig", Fails, Training(|s, g| files::configs(s, g, &g.datagen))),
    ("2.1.16", "runResultsJson", Fails, Training(files::results_json)),
    ("2.1.17", "runTimestamps", Fails, Training(files::run_count)),
    ("2.1.18", "runTimestampGap", Fails, Training(files::gaps)),
    ("2.1.19", "runFiles", Fails, Training(|s, g| files::files(s, g, &g.runs))),
    ("2.1.20", "runDlioConfig", Fails, Training(|s, g| files::configs(s, g, &g.runs))),
    ("2.1.21", "checkpointingWorkloads", Fails, Checkpoints(structure::workloads)),
    ("2.1.22", "checkpointingResultsJson", Fails, Checkpoints(files::results_json)),
    ("2.1.23", "checkpointingTimestamps", Fails, Checkpoints(files::checkpoint_count)),
    ("2.1.24", "checkpointingTimestampGap", Warns, Omitted("gaps between writes and reads")),
    ("2.1.25", "checkpointingFiles", Fails, Checkpoints(|s, g| files::files(s, g, &g.runs))),
    ("2.1.26", "checkpointingDlioConfig", Fails, Checkpoints(|s, g| files::configs(s, g, &g.runs))),
    ("3.1.1", "trainingVerifyDatasizeUsage", Fails, Training(training::sized)),
    ("3.1.2", "trainingRecalculateDatasetSize", Fails, Training(training::large_enough)),
    ("3.2.1", "trainingDatagenMinimumSize", Fails, Training(training::generated)),
    ("3.3.1", "trainingRunDataMatchesDatasize", Warns, Omitted("files that datagen did not make")),
    ("3.3.2", "trainingAcceleratorUtilizationCheck", Fails, Training(training::utilisation)),
    (
        "3.3.3",
        "trainingSingleHostSimulatedAccelerators",
        Warns,
        Omitted("how many more accelerators fit"),
    ),
    ("3.3.4", "trainingSingleHostClientLimit", Fails, Training(training::hosts)),
    ("3.3.6", "trainingIdenticalAcceleratorsPerNode", Fails, Training(training::even)),
    ("3.3.7", "trainingNodeCapabilityConsistency", Silent, Omitted("CPU cores of hosts")),
    ("3.3.8", "trainingResultAggregation", Fails, Training(recomputed::table)),
    ("3.4.1", "trainingMlpstoragePathArgs", Fails, Training(paths::paths)),
    ("3.4.2", "trainingMlpstorageFilesystemCheck", Fails, Training(paths::file_systems)),
    ("3.6.2", "trainingClosedSubmissionParameters", Silent, Training(training::parameters)),
    ("4.3.1", "checkpointDataSizeRatio", Warns, Omitted("whether caches were cleared")),
    ("4.3.2", "checkpointFsyncVerification", Fails, Checkpoints(checkpoints::synced)),
    ("4.3.3", "checkpointModelConfigurationReq", Fails, Checkpoints(structure::workloads)),
    ("4.3.4", "checkpointAggregateAcceleratorMemory", Fails, Checkpoints(checkpoints::fits)),
    ("4.3.5", "checkpointSubsetRunValidation", Fails, Checkpoints(checkpoints::subset)),
    ("4.3.6", "checkpointResultAggregation", Fails, Checkpoints(recomputed::table)),
    ("4.4.1", "checkpointPathArgs", Fails, Checkpoints(paths::paths)),
    ("4.4.2", "checkpointFilesystemCheck", Fails, Checkpoints(paths::file_systems)),
    ("4.6.1", "checkpointClosedMpiProcesses", Fails, Checkpoints(checkpoints::rank_count)),
    ("4.6.2", "checkpointClosedAcceleratorsPerHost", Silent, Checkpoints(checkpoints::host_ranks)),
    ("4.6.3", "checkpointClosedCheckpointParameters", Silent, Checkpoints(checkpoints::parameters)),
    ("4.6.4", "checkpointOpenSubmissionScaling", Silent, Checkpoints(checkpoints::open_ranks)),
    ("4.7.1", "checkpointCacheFlushValidation", Fails, Checkpoints(checkpoints::order)),
    ("4.7.2", "checkpointTotalTestDuration", Fails, Checkpoints(checkpoints::duration)),
    ("4.7.3", "checkpointRemappingTimeReporting", Fails, Tree(systems::remap_time)),
    ("4.7.3", "checkpointRemappingTimeReporting", Fails, Checkpoints(checkpoints::remapped)),
    ("4.7.4", "checkpointSimultaneousRwSupport", Fails, Tree(systems::capabilities)),
    ("5", "vectorDatabases", Fails, VectorDatabase(runs::vector_databases)),
    ("6.3.1.1", "kvcacheFixedWorkloadPerOption", Silent, KvCache(kv_cache::options)),
    ("6.3.2.1", "kvcacheClosedSequenceLocks", Silent, KvCache(kv_cache::sequence)),
    ("6.3.3.3", "kvcachePerClientIsolation", Silent, KvCache(kv_cache::ranks)),
    ("6.3.4.1", "kvcacheAggregateBandwidth", Silent, KvCache(kv_cache::aggregates)),
    ("6.4.1", "kvcachePosixCacheDir", Silent, KvCache(paths::paths)),
    ("CHECK", "imagePool", Fails, Omitted("pools of images of source code")),
    ("PROV", "provenance", Fails, Omitted("stamps of runs and the manifest submission.yaml")),
    ("EDN", "comparabilityClass", Fails, Omitted("comparability classes and DLIO's revision")),
    ("RPT-01", "rollupTableAgreement", Fails, Omitted("public IDs of tables")),
    ("LEAF-01", "runLeafMetadata", Fails, KvCache(kv_cache::identified)),
    ("stormlp.scored", "scoredFiguresAreThere", Silent, Dlio(scored::complete)),
    ("stormlp.files", "filesCanBeRead", Silent, Tree(runs::readable)),
    ("stormlp.folders", "foldersBelongToResults", Silent, Tree(runs::placed)),
    (EDITION, "runsAreOfTheNewestEdition", Silent, Tree(runs::edition)),
    ("stormlp.verification", "verificationFitsDivision", Silent, Dlio(runs::verification)),
    ("stormlp.sums", "figuresFollowFromTheirParts", Silent, Dlio(recomputed::figures)),
];

/// The only rule that a tree of another edition is checked by.
const EDITION: &str = "stormlp.edition";

/// Checks a tree by the rules of v3.0.
pub fn check(submission: &Submission) -> CheckReport {
    let mut rules = Vec::new();
    for (id, name, usual, check) in RULES.iter().copied() {
        if !submission.is_checked() && id != EDITION {
            continue;
        }
        rules.extend(findings(check, submission).into_iter().map(|found| {
            let official = found.official.unwrap_or(usual);
            // Where MLCommons only warns, the rule has not failed.
            let only_warns = found.kind == FindingKind::Failed && official == Warns;
            let kind = if only_warns { FindingKind::Warned } else { found.kind };
            Finding { id, name, kind, official: Some(official), ..found }
        }));
    }
    let of = |kind| rules.iter().filter(move |rule: &&Finding| rule.kind == kind);
    let mut blocked_by: Vec<String> =
        of(FindingKind::Unknown).map(|rule| rule.id.to_string()).collect();
    blocked_by.dedup();
    let rehearsal = submission.rehearsal();
    let mut groups = submission.groups.iter();
    let in_open = groups.any(|group| group.division.as_deref() == Some("open"));
    let verdict = if of(FindingKind::Failed).next().is_some() {
        TreeVerdict::Invalid
    } else if rehearsal.is_some() && submission.is_checked() {
        TreeVerdict::Rehearsal
    } else if !blocked_by.is_empty() {
        TreeVerdict::Incomplete
    } else if in_open || of(FindingKind::PassedOpen).next().is_some() {
        TreeVerdict::Open
    } else {
        TreeVerdict::Closed
    };
    CheckReport {
        verdict,
        edition: submission.edition.clone(),
        edition_from: submission.edition_from.clone(),
        shape: submission.shape,
        rehearsal,
        blocked_by,
        results: submission.results(),
        rules,
    }
}

fn findings(check: Check, submission: &Submission) -> Vec<Finding> {
    let (categories, check): (&[Category], _) = match check {
        Tree(check) => return check(submission),
        Omitted(subjects) => {
            let fact = format!("stormlp does not check {subjects}");
            return vec![advice("", fact, "run `mlpstorage validate`, which does")];
        }
        Training(check) => (&[Category::Training], check),
        Checkpoints(check) => (&[Category::Checkpointing], check),
        Dlio(check) => (&DLIO, check),
        KvCache(check) => (&[Category::KvCache], check),
        VectorDatabase(check) => (&[Category::VectorDatabase], check),
    };
    let wanted = submission.groups.iter().filter(|group| categories.contains(&group.category));
    wanted.flat_map(|group| check(submission, group)).collect()
}
