//! The table of rules, and the verdict on a tree.

use serde::Serialize;

use super::edition::Edition;
use super::rule::Check::{Any, Checkpointing, Training, Tree};
use super::rule::{Check, Finding, FindingKind, NONE, RuleFinding, RuleRow};
use super::rule::{fails, own, rule, silent, warns};
use super::survey::{Category, Submission, TreeShape};
use super::{
    agreement, checkpointing, files, kv_cache, object, paths, pool, provenance, report_file,
    scored, stamped, strays, structure, sums, systems, tables, training, vector_database,
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
    /// stormlp made the tree, and no rule that a rehearsal can keep is broken.
    Rehearsal,
}

/// The result of checking a tree.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckReport {
    /// The verdict.
    pub verdict: TreeVerdict,
    /// The edition of the rules.
    pub edition: Edition,
    /// How the edition was chosen.
    pub edition_from: String,
    /// How the tree is laid out.
    pub shape: TreeShape,
    /// What shows that stormlp made it; `null` for other trees.
    pub rehearsal: Option<String>,
    /// The rules that cannot be checked and that the verdict needs.
    pub held_up_by: Vec<String>,
    /// The results that were found, such as `training unet3d`.
    pub results: Vec<String>,
    /// What each rule found, in the order of the rules.
    pub rules: Vec<RuleFinding>,
}

/// The rules: name, number in v2.0 and v3.0 with what the official checker does about a breach, and
/// the check. v2.0's numbers are those of its submission guidelines, which have fewer rules.
#[rustfmt::skip]
const RULES: &[RuleRow] = &[
    rule("mlpstorageGeneratesHierarchy", silent("5"), silent("1.1"), Tree(structure::made_by_the_tool)),
    rule("storageBackendEnvVarDeclaration", NONE, silent("1.2"), Any(object::declared)),
    rule("submitterRootDirectory", NONE, fails("2.1.1"), Tree(structure::submitter)),
    rule("topLevelSubdirectories", silent("11.3"), fails("2.1.2"), Tree(structure::top_level)),
    rule("requiredSubdirectories", silent("11.1"), fails("2.1.5"), Tree(structure::subdirectories)),
    rule("codeDirectoryContents", silent("11.1"), fails("2.1.6"), Tree(structure::code)),
    rule("systemsDirectoryFiles", silent("11.4"), fails("2.1.7"), Tree(systems::systems)),
    rule("resultsDirectorySystems", silent("11.3"), fails("2.1.8"), Tree(structure::results)),
    rule("identicalSystemConfig", NONE, fails("2.1.9"), Tree(structure::identical)),
    rule("workloadCategories", NONE, fails("2.1.10"), Tree(structure::categories)),
    rule("trainingWorkloads", silent("2.1"), fails("2.1.11"), Training(structure::workloads)),
    rule("trainingPhases", NONE, fails("2.1.12"), Training(structure::phases)),
    rule("datagenTimestamp", NONE, fails("2.1.13"), Training(files::one_datagen)),
    rule("datagenFiles", silent("11.1"), fails("2.1.14"), Training(files::datagen_files)),
    rule("datagenDlioConfig", NONE, fails("2.1.15"), Training(files::datagen_config)),
    rule("runResultsJson", NONE, fails("2.1.16"), Training(files::results_json)),
    rule("runTimestamps", silent("6.6"), fails("2.1.17"), Training(files::run_count)),
    rule("runTimestampGap", silent("6.6"), fails("2.1.18"), Training(files::gaps)),
    rule("runFiles", silent("11.1"), fails("2.1.19"), Training(files::run_files)),
    rule("runDlioConfig", NONE, fails("2.1.20"), Training(files::run_config)),
    rule("checkpointingWorkloads", silent("2.2.1"), fails("2.1.21"), Checkpointing(structure::workloads)),
    rule("checkpointingResultsJson", NONE, fails("2.1.22"), Checkpointing(files::results_json)),
    rule("checkpointingTimestamps", NONE, fails("2.1.23"), Checkpointing(files::checkpoint_count)),
    rule("checkpointingTimestampGap", NONE, warns("2.1.24"), Checkpointing(checkpointing::gap)),
    rule("checkpointingFiles", silent("11.1"), fails("2.1.25"), Checkpointing(files::run_files)),
    rule("checkpointingDlioConfig", NONE, fails("2.1.26"), Checkpointing(files::run_config)),
    rule("trainingVerifyDatasizeUsage", silent("7"), fails("3.1.1"), Training(training::sized)),
    rule("trainingRecalculateDatasetSize", fails("6.6"), fails("3.1.2"), Training(training::large_enough)),
    rule("trainingDatagenMinimumSize", silent("7"), fails("3.2.1"), Training(training::generated)),
    rule("trainingRunDataMatchesDatasize", silent("7"), warns("3.3.1"), Training(training::used)),
    rule("trainingAcceleratorUtilizationCheck", silent("2.1"), fails("3.3.2"), Training(training::utilisation)),
    rule("trainingSingleHostSimulatedAccelerators", silent("8"), warns("3.3.3"), Training(training::single_host_load)),
    rule("trainingSingleHostClientLimit", silent("8"), fails("3.3.4"), Training(training::hosts)),
    rule("trainingIdenticalAcceleratorsPerNode", silent("9"), fails("3.3.6"), Training(training::even)),
    rule("trainingNodeCapabilityConsistency", NONE, silent("3.3.7"), Training(training::alike)),
    rule("trainingResultAggregation", NONE, fails("3.3.8"), Training(report_file::aggregated)),
    rule("trainingMlpstoragePathArgs", NONE, fails("3.4.1"), Training(paths::paths)),
    rule("trainingMlpstorageFilesystemCheck", NONE, fails("3.4.2"), Training(paths::file_systems)),
    rule("trainingClosedSubmissionParameters", fails("10.1"), silent("3.6.2"), Training(training::parameters)),
    rule("trainingCheckpointInRun", fails("2.1"), NONE, Training(training::checkpoint_in_run)),
    rule("checkpointDataSizeRatio", silent("2.2.2"), warns("4.3.1"), Checkpointing(checkpointing::beyond_memory)),
    rule("checkpointFsyncVerification", silent("2.2.2"), fails("4.3.2"), Checkpointing(checkpointing::synced)),
    rule("checkpointModelConfigurationReq", silent("2.2.1"), fails("4.3.3"), Checkpointing(checkpointing::known_model)),
    rule("checkpointAggregateAcceleratorMemory", NONE, fails("4.3.4"), Checkpointing(checkpointing::fits_accelerators)),
    rule("checkpointResultAggregation", NONE, fails("4.3.6"), Checkpointing(report_file::aggregated)),
    rule("checkpointSubsetRunValidation", silent("2.2.2"), fails("4.3.5"), Checkpointing(checkpointing::subset)),
    rule("checkpointPathArgs", NONE, fails("4.4.1"), Checkpointing(paths::paths)),
    rule("checkpointFilesystemCheck", NONE, fails("4.4.2"), Checkpointing(paths::file_systems)),
    rule("checkpointClosedMpiProcesses", silent("2.2.5"), fails("4.6.1"), Checkpointing(checkpointing::rank_count)),
    rule("checkpointClosedAcceleratorsPerHost", silent("2.2.5"), silent("4.6.2"), Checkpointing(checkpointing::ranks_of_host)),
    rule("checkpointClosedCheckpointParameters", silent("2.2.5"), silent("4.6.3"), Checkpointing(checkpointing::parameters)),
    rule("checkpointOpenSubmissionScaling", silent("2.2.5"), silent("4.6.4"), Checkpointing(checkpointing::open_rank_count)),
    rule("checkpointCacheFlushValidation", silent("2.2.5"), fails("4.7.1"), Checkpointing(checkpointing::order)),
    rule("checkpointTotalTestDuration", NONE, fails("4.7.2"), Checkpointing(checkpointing::duration)),
    rule("checkpointRemappingTimeReporting", NONE, fails("4.7.3"), Tree(systems::remap_time)),
    rule("checkpointRemappingTimeReporting", NONE, fails("4.7.3"), Checkpointing(checkpointing::remapped)),
    rule("checkpointSimultaneousRwSupport", NONE, fails("4.7.4"), Tree(systems::capabilities)),
    rule("checkpointSimultaneousRwSupport", NONE, warns("4.7.4"), Checkpointing(checkpointing::simultaneous)),
    rule("vdbMetricsReported", NONE, fails("5.3.4"), Tree(vector_database::metrics)),
    rule("vdbDimensionConsistency", NONE, fails("5.1.2"), Tree(vector_database::loaded)),
    rule("vdbCollectionPopulated", NONE, fails("5.2.1"), Tree(vector_database::populated)),
    rule("vdbRunCount", NONE, fails("5.3.1"), Tree(vector_database::run_count)),
    rule("vdbRecallReported", NONE, fails("5.3.2"), Tree(vector_database::recall)),
    rule("vdbPathArgs", NONE, fails("5.4.1"), Tree(vector_database::folders)),
    rule("vdbClosedDatabaseBackend", NONE, fails("5.6.2"), Tree(vector_database::backend)),
    rule("kvcacheFixedWorkloadPerOption", NONE, silent("6.3.1.1"), Tree(kv_cache::options)),
    rule("kvcacheClosedSequenceLocks", NONE, silent("6.3.2.1"), Tree(kv_cache::sequence)),
    rule("kvcachePerClientIsolation", NONE, silent("6.3.3.3"), Tree(kv_cache::ranks)),
    rule("kvcacheAggregateBandwidth", NONE, silent("6.3.4.1"), Tree(kv_cache::aggregates)),
    rule("kvcachePosixCacheDir", NONE, silent("6.4.1"), Tree(kv_cache::folders)),
    rule("poolPointerResolution", NONE, fails("CHECK-01"), Tree(pool::pointers)),
    rule("poolOrphanCheck", NONE, fails("CHECK-03"), Tree(pool::orphans)),
    rule("poolLegacyCheck", NONE, fails("CHECK-04"), Tree(pool::layout)),
    rule("leafProvenance", NONE, fails("PROV-01"), Any(provenance::stamps)),
    rule("submissionManifest", NONE, fails("PROV-02"), Tree(provenance::manifest)),
    rule("rulesEdition", NONE, fails("EDN-01"), Tree(stamped::known_edition)),
    rule("comparabilityClass", NONE, fails("EDN-02"), Tree(stamped::comparable)),
    rule("dlioRevision", NONE, warns("EDN-03"), Tree(stamped::dlio_revision)),
    rule("rulesEditionChecked", NONE, fails("EDN-04"), Tree(stamped::checked_edition)),
    rule("runLeafMetadata", NONE, fails("LEAF-01"), Tree(tables::identified)),
    rule("rollupTableAgreement", NONE, fails("RPT-01"), Tree(tables::rollup)),
    own("scoredFiguresAreThere", "stormlp.scored", Any(scored::complete)),
    own("filesCanBeRead", "stormlp.files", Tree(agreement::readable)),
    own("foldersBelongToResults", "stormlp.folders", Tree(agreement::placed)),
    own("runsAreOfOneEdition", "stormlp.edition", Tree(agreement::editions)),
    own("verificationFitsDivision", "stormlp.verification", Any(agreement::verification)),
    own("filesSayTheSame", "stormlp.agreement", Any(agreement::agree)),
    own("sumsAgree", "stormlp.sums", Any(sums::sums)),
    own("reportIsOfTheRuns", "stormlp.report", Any(report_file::reported)),
    own("rehearsalSaysSo", "stormlp.rehearsal", Any(provenance::rehearsal)),
    own("noOtherFiles", "stormlp.strays", Tree(strays::strays)),
];

/// The only finding on a tree of an edition without rules here.
const UNSUPPORTED: &[RuleRow] =
    &[own("editionIsSupported", "stormlp.edition", Tree(stamped::unsupported))];

/// Checks a tree by the rules of its edition.
pub fn check(submission: &Submission) -> CheckReport {
    let mut rules = Vec::new();
    let rows = if submission.unsupported.is_some() { UNSUPPORTED } else { RULES };
    for row in rows {
        let Some((id, official)) = row.number(submission.edition) else { continue };
        rules.extend(findings(row.check, submission).into_iter().map(|finding| {
            let (finding, official) = finding.judged(official);
            RuleFinding { id, name: row.name, finding, official }
        }));
    }
    let of = |kind| rules.iter().filter(move |rule: &&RuleFinding| rule.finding.kind == kind);
    let mut held_up_by: Vec<String> = Vec::new();
    for rule in of(FindingKind::Unknown) {
        // Several rules of v2.0 share a number.
        if !held_up_by.iter().any(|known| known == rule.id) {
            held_up_by.push(rule.id.to_string());
        }
    }
    let rehearsal = submission.rehearsal();
    let divisions = submission.groups.iter().map(|group| group.division.as_deref());
    let mut divisions = divisions.chain(submission.other_runs.iter().map(|run| run.division));
    let in_open = divisions.any(|division| division == Some("open"));
    let verdict = if of(FindingKind::Failed).next().is_some() {
        TreeVerdict::Invalid
    } else if rehearsal.is_some() {
        TreeVerdict::Rehearsal
    } else if !held_up_by.is_empty() {
        TreeVerdict::Incomplete
    } else if in_open || of(FindingKind::PassedOpen).next().is_some() {
        TreeVerdict::Open
    } else {
        TreeVerdict::Closed
    };
    let groups = submission.groups.iter();
    let mut results: Vec<String> =
        groups.map(|group| format!("{} {}", group.category.name(), group.model)).collect();
    for run in submission.other_runs.iter().filter(|run| run.command == "run") {
        let result = format!("{} {}", run.benchmark, run.model);
        if !results.contains(&result) {
            results.push(result);
        }
    }
    CheckReport {
        verdict,
        edition: submission.edition,
        edition_from: submission.edition_from.clone(),
        shape: submission.shape,
        rehearsal,
        held_up_by,
        results,
        rules,
    }
}

fn findings(check: Check, submission: &Submission) -> Vec<Finding> {
    let (category, check) = match check {
        Tree(check) => return check(submission),
        Training(check) => (Some(Category::Training), check),
        Checkpointing(check) => (Some(Category::Checkpointing), check),
        Any(check) => (None, check),
    };
    let groups = submission.groups.iter();
    let wanted = groups.filter(|group| category.is_none_or(|wanted| group.category == wanted));
    wanted.flat_map(|group| check(submission, group)).collect()
}
