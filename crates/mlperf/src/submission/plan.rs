//! The plan of a campaign: data, runs, time and disk of a submission, and the official tool's
//! commands in order.

use std::path::Path;

use serde::Serialize;

use super::checkpointing::least_ranks_of_host;
use super::edition::Edition;
use stormlp_checkpoint::plan::CheckpointWorkload;
use stormlp_checkpoint::plan::rules::{COUNT, PAUSE_SECONDS, outgrows_memory};
use stormlp_core::failure::Problems;
use stormlp_core::location::{ObjectName, names_object};
use stormlp_core::shell::shell_word;
use stormlp_core::units::{GIB, counted};
use stormlp_training::plan::datasize::{DataSize, SizeRequest, datasize};
use stormlp_training::plan::rules::{CLOSED_RUNS, closed_workloads};
use stormlp_training::plan::workload::Workload;

/// The default accelerator of an edition.
pub fn usual_accelerator(edition: Edition) -> &'static str {
    match edition {
        Edition::V2 => "h100",
        Edition::V3 => "b200",
    }
}

/// A workload to submit.
#[derive(Debug, Clone)]
pub enum Planned {
    /// A training workload.
    Training(Box<Workload>),
    /// A checkpoint model.
    Checkpointing(Box<CheckpointWorkload>),
}

impl Planned {
    /// Training workloads and checkpoint models have no name in common.
    fn name(&self) -> &str {
        match self {
            Self::Training(workload) => &workload.name,
            Self::Checkpointing(model) => &model.name,
        }
    }
}

/// The hosts and folders of a campaign.
#[derive(Debug, Clone)]
pub struct PlanRequest {
    /// The edition of the rules.
    pub edition: Edition,
    /// Emulated accelerators of a training run, in total.
    pub accelerators: u32,
    /// The clients.
    pub hosts: Vec<String>,
    /// Memory of one client in bytes.
    pub host_memory_bytes: u64,
    /// Write rate of the storage, where known.
    pub write_bytes_per_second: Option<f64>,
    /// Read rate of the storage, where known.
    pub read_bytes_per_second: Option<f64>,
    /// Folder of the datasets.
    pub data: String,
    /// Folder of the checkpoints.
    pub checkpoints: String,
    /// Folder of the results, on another file system.
    pub results: String,
    /// The organisation.
    pub organisation: String,
    /// The system.
    pub system: String,
    /// The accelerator of checkpoints in v3.0.
    pub checkpoint_accelerator: String,
}

/// A campaign.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CampaignPlan {
    /// The edition of the rules.
    pub edition: Edition,
    /// The results.
    pub results: Vec<PlannedResult>,
    /// The steps, in order.
    pub steps: Vec<PlannedStep>,
    /// Most bytes on the storage under test.
    pub disk_bytes: u64,
    /// Estimated duration of the campaign; `null` without the rates that decide it.
    pub estimated_seconds: Option<f64>,
    /// The assumptions of the estimate.
    pub estimate: String,
}

/// The plan of one result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlannedResult {
    /// The workload.
    pub workload: String,
    /// The accelerator.
    pub accelerator: String,
    /// Accelerators, or ranks of a checkpoint.
    pub accelerators: u64,
    /// Files of the dataset; 0 for checkpoints.
    pub files: u64,
    /// Bytes on storage.
    pub disk_bytes: u64,
    /// Runs, or checkpoints written and read.
    pub runs: u64,
    /// Estimated duration of one run, where known.
    pub estimated_run_seconds: Option<f64>,
    /// Estimated duration of the result with its preparation.
    pub estimated_seconds: Option<f64>,
}

/// A step of a campaign.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedStep {
    /// Its purpose.
    pub what: String,
    /// Its command; empty for steps done by hand.
    pub command: String,
}

/// Plans a campaign of all of `planned`.
///
/// # Errors
/// For workloads that the edition does not have, bad names and folders, and impossible sizes.
pub fn plan(planned: &[Planned], request: &PlanRequest) -> Result<CampaignPlan, Problems> {
    let mut problems = Problems::default();
    names(request, &mut problems);
    places(request, &mut problems);
    let mut campaign = CampaignPlan {
        edition: request.edition,
        results: Vec::new(),
        steps: opening(request),
        disk_bytes: 0,
        estimated_seconds: None,
        estimate: estimate_of(request),
    };
    for (index, one) in planned.iter().enumerate() {
        // A workload named twice is one result.
        if planned[..index].iter().any(|other| other.name() == one.name()) {
            continue;
        }
        match one {
            Planned::Training(workload) => {
                training(workload, request, &mut campaign, &mut problems)
            }
            Planned::Checkpointing(model) => {
                checkpointing(model, request, &mut campaign, &mut problems);
            }
        }
    }
    campaign.steps.extend(closing(planned, request));
    campaign.disk_bytes =
        campaign.results.iter().fold(0, |sum, one| one.disk_bytes.saturating_add(sum));
    let seconds = campaign.results.iter().map(|one| one.estimated_seconds);
    campaign.estimated_seconds = seconds.sum();
    problems.or(campaign)
}

/// Names become folders: a bad name breaks rule 2.1.1 once everything has run.
fn names(request: &PlanRequest, problems: &mut Problems) {
    for (option, name) in [("--organisation", &request.organisation), ("--system", &request.system)]
    {
        if !is_name(name) {
            problems.plan(
                format!(
                    "{option} `{name}` is not a valid folder name of a submission: use letters, \
                     digits, `.`, `_` and `-` (rule 2.1.1)"
                ),
                "replace each other character by a `-`",
            );
        }
    }
}

/// Whether folders of a submission may have this name.
fn is_name(name: &str) -> bool {
    let safe = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !matches!(name, "" | "." | "..") && !name.starts_with('-') && name.chars().all(safe)
}

/// Results are on another file system than the data, so never in the same folder.
fn places(request: &PlanRequest, problems: &mut Problems) {
    let results = Path::new(&request.results);
    for (option, folder, rule) in [
        ("--data-dir", &request.data, "3.4.1"),
        ("--checkpoint-folder", &request.checkpoints, "4.4.1"),
    ] {
        objects(option, folder, request.edition, problems);
        // Compared as paths: a trailing slash does not matter.
        if Path::new(folder) == results {
            problems.plan(
                format!("{option} and --results-dir are both {folder} (rule {rule})"),
                "put the results on another file system: --results-dir DIR",
            );
        }
    }
}

/// Objects are named by bucket and prefix, and v2.0 has none.
fn objects(option: &str, place: &str, edition: Edition, problems: &mut Problems) {
    let place = Path::new(place);
    let (fact, remedy) = match ObjectName::of(place) {
        _ if !names_object(place) => return,
        Err(error) => (error, "name objects as s3://bucket/prefix"),
        Ok(_) if edition == Edition::V2 => {
            let fact = format!("{} names objects, and v2.0 has files alone", place.display());
            (fact, "name a folder, or use --edition 3.0")
        }
        Ok(name) if name.key.trim_end_matches('/').is_empty() => {
            let fact =
                format!("{} names a bucket: mlpstorage needs a prefix in it", place.display());
            (fact, "name objects as s3://bucket/prefix")
        }
        Ok(_) => return,
    };
    problems.plan(format!("{option}: {fact}"), remedy);
}

fn estimate_of(request: &PlanRequest) -> String {
    let rates = match (request.write_bytes_per_second, request.read_bytes_per_second) {
        (Some(_), Some(_)) => "data written and read at the given rates",
        (None, Some(_)) => "writing is not estimated (give --write-rate)",
        (Some(_), None) => "reading checkpoints is not estimated (give --read-rate)",
        (None, None) => {
            "writing and reading checkpoints is not estimated (give --write-rate and --read-rate)"
        }
    };
    format!("an estimate without measurements: runs at their AU threshold, {rates}")
}

/// A command line, with words quoted for a shell.
fn line(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
    words.join(" ")
}

fn step(what: impl Into<String>, command: String) -> PlannedStep {
    PlannedStep { what: what.into(), command }
}

/// The system of results on so many of the hosts: a description has one number of clients (rule 2.1.9), so
/// results on fewer hosts are those of another system. v2.0's tool names none.
fn system_on(hosts: usize, request: &PlanRequest) -> String {
    let system = &request.system;
    if hosts == request.hosts.len() || request.edition == Edition::V2 {
        system.clone()
    } else {
        format!("{system}-{hosts}-host{}", if hosts == 1 { "" } else { "s" })
    }
}

/// The systems of all results, each with its number of hosts.
fn systems(planned: &[Planned], request: &PlanRequest) -> Vec<(String, usize)> {
    let mut found: Vec<(String, usize)> = Vec::new();
    for one in planned {
        let hosts = match one {
            Planned::Training(_) => Some(request.hosts.len()),
            Planned::Checkpointing(model) => {
                let ranks = model.parallelism_of_all_ranks().ranks();
                hosts_of_ranks(request.edition, &request.hosts, ranks).map(<[String]>::len)
            }
        };
        let system = hosts.map(|hosts| (system_on(hosts, request), hosts));
        found.extend(system.filter(|(name, _)| found.iter().all(|(known, _)| known != name)));
    }
    found
}

fn opening(request: &PlanRequest) -> Vec<PlannedStep> {
    let mut steps = Vec::new();
    if request.edition == Edition::V3 {
        let claim = line(&["mlpstorage", "init", &request.organisation, &request.results]);
        steps.push(step("claim the results folder, once", claim));
    }
    if [&request.data, &request.checkpoints].into_iter().any(|place| names_object(Path::new(place)))
    {
        let what = "tell mlpstorage of the endpoint of its objects: export AWS_ENDPOINT_URL, \
                    AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; other libraries than s3dlio by \
                    STORAGE_LIBRARY";
        steps.push(step(what, String::new()));
    }
    steps
}

fn closing(planned: &[Planned], request: &PlanRequest) -> Vec<PlannedStep> {
    let report = line(&["mlpstorage", "reports", "reportgen", "--results-dir", &request.results]);
    // The report has columns from the description.
    let folder = match request.edition {
        Edition::V2 => "systems".to_string(),
        Edition::V3 => format!("closed/{}/systems", request.organisation),
    };
    let describe = |(system, hosts): (String, usize)| {
        let on = counted(hosts as u64, "client");
        let what = format!(
            "describe the system of {on}: {folder}/{system}.yaml (`stormlp submission system-yaml`) and \
             {system}.pdf"
        );
        step(what, String::new())
    };
    let mut steps: Vec<PlannedStep> = systems(planned, request).into_iter().map(describe).collect();
    steps.push(step("make the report", report));
    let check = line(&["stormlp", "submission", "check", &request.results]);
    steps.push(step("check the rules that the official checker does not", check));
    if request.edition == Edition::V3 {
        let validate = line(&["mlpstorage", "validate", &request.results]);
        steps.push(step("the official check", validate));
    }
    steps
}

/// Whole GiB of a client.
fn memory(request: &PlanRequest) -> String {
    request.host_memory_bytes.div_ceil(GIB).to_string()
}

fn training(
    workload: &Workload,
    request: &PlanRequest,
    campaign: &mut CampaignPlan,
    problems: &mut Problems,
) {
    let profile = request.edition.profile();
    let (name, accelerator) = (workload.name.as_str(), workload.accelerator.as_str());
    if !closed_workloads(profile).any(|known| known == (name, accelerator)) {
        let known: Vec<String> =
            closed_workloads(profile).map(|(model, on)| format!("{model} on {on}")).collect();
        problems.plan(
            format!("{name} on {accelerator} is not a closed workload of v{}", request.edition),
            format!("choose one of {}", known.join(", ")),
        );
        return;
    }
    if !shared_equally(name, request, problems) {
        return;
    }
    let size = datasize(&SizeRequest {
        hosts: request.hosts.len() as u64,
        host_memory_bytes: request.host_memory_bytes,
        ..SizeRequest::of(workload, profile, u64::from(request.accelerators))
    });
    let size = match size {
        Ok(size) => size,
        Err(error) => {
            return problems.plan(error.to_string(), "check --accelerators and --host-memory");
        }
    };
    let runs = u64::from(CLOSED_RUNS) + 1;
    let steps = size.steps_per_epoch as f64 * f64::from(workload.train.epochs);
    let compute = steps * workload.train.computation_time.mean_seconds();
    let run_seconds = compute / workload.metric.au.max(0.01);
    let generation = request.write_bytes_per_second.map(|rate| size.bytes as f64 / rate);
    campaign.results.push(PlannedResult {
        workload: name.to_string(),
        accelerator: accelerator.to_string(),
        accelerators: u64::from(request.accelerators),
        files: size.files,
        disk_bytes: size.bytes,
        runs,
        estimated_run_seconds: Some(run_seconds),
        estimated_seconds: generation.map(|seconds| seconds + runs as f64 * run_seconds),
    });
    campaign.steps.extend(training_steps(workload, request, &size));
}

/// Whether the hosts share the accelerators equally; a problem if not.
fn shared_equally(name: &str, request: &PlanRequest, problems: &mut Problems) -> bool {
    let (count, hosts) = (request.accelerators, request.hosts.len());
    let equally = u64::from(count).is_multiple_of(hosts.max(1) as u64);
    if !equally {
        let rule = match request.edition {
            Edition::V2 => "9",
            Edition::V3 => "3.3.6",
        };
        problems.plan(
            format!(
                "{name}: {count} accelerators on {hosts} hosts: each host must have the same number \
                 (rule {rule})"
            ),
            format!("give --accelerators as a multiple of {hosts}, or other --hosts"),
        );
    }
    equally
}

/// How mlpstorage v3.0 names the API of a place, the variables that it takes objects from, and the
/// folder, or the prefix in their bucket.
fn api_of(place: &str) -> (&'static str, String, &str) {
    match ObjectName::of(Path::new(place)) {
        Ok(name) => {
            let variables = format!("BUCKET={} STORAGE_LIBRARY=s3dlio ", shell_word(name.bucket));
            ("object", variables, name.key.trim_end_matches('/'))
        }
        Err(_) => ("file", String::new(), place),
    }
}

/// The commands that size, generate and read the dataset.
fn training_commands(workload: &Workload, request: &PlanRequest, size: &DataSize) -> [String; 3] {
    let name = workload.name.as_str();
    let (hosts, count) = (request.hosts.join(","), request.accelerators.to_string());
    let (api, environment, data) = api_of(&request.data);
    let folders = ["--hosts", &hosts, "--data-dir", data, "--results-dir", &request.results];
    let files = format!("dataset.num_files_train={}", size.files);
    let subfolders = format!("dataset.num_subfolders_train={}", size.subfolders);
    let mut params = vec!["--params", &files];
    if size.subfolders > 0 {
        params.push(&subfolders);
    }
    let command = |tool: [&str; 5], options: &[&[&str]], counted: &str, params: &[&str]| {
        let options = options.concat();
        line(&[&tool, options.as_slice(), &[counted, &count], &folders, params].concat())
    };
    let accelerator = ["--accelerator-type", workload.accelerator.as_str()];
    let (gib, clients) = (memory(request), request.hosts.len().to_string());
    let memory = ["--client-host-memory-in-gb", gib.as_str()];
    let (size_count, run_count) = ("--max-accelerators", "--num-accelerators");
    match request.edition {
        Edition::V2 => {
            let tool = |command| ["mlpstorage", "training", command, "--model", name];
            let clients = ["--num-client-hosts", clients.as_str()];
            let mut closed = vec!["--closed"];
            if workload.workflow.checkpoint {
                closed.extend(["--checkpoint-folder", &request.checkpoints]);
            }
            let sized: [&[&str]; 3] = [&accelerator, &memory, &clients];
            let run: [&[&str]; 4] = [&accelerator, &memory, &clients, &closed];
            [
                command(tool("datasize"), &sized, size_count, &[]),
                command(tool("datagen"), &[], "--num-processes", &params),
                command(tool("run"), &run, run_count, &params),
            ]
        }
        Edition::V3 => {
            let tool = |command| ["mlpstorage", "closed", "training", name, command];
            let system = ["--systemname", request.system.as_str()];
            let sized: [&[&str]; 3] = [&system, &accelerator, &memory];
            let run: [&[&str]; 4] = [&[api], &system, &accelerator, &memory];
            let [sized, generate, run] = [
                command(tool("datasize"), &sized, size_count, &[]),
                command(tool("datagen"), &[&[api], &system], "--num-processes", &params),
                command(tool("run"), &run, run_count, &params),
            ];
            [sized, format!("{environment}{generate}"), format!("{environment}{run}")]
        }
    }
}

fn training_steps(workload: &Workload, request: &PlanRequest, size: &DataSize) -> Vec<PlannedStep> {
    let name = workload.name.as_str();
    let [size, generate, run] = training_commands(workload, request, size);
    let runs = CLOSED_RUNS + 1;
    let run = format!("for run in $(seq {runs}); do {run}; done");
    let what = format!("{name}: a warm-up and {CLOSED_RUNS} scored runs without a pause");
    vec![
        step(format!("size the dataset of {name}"), size),
        step(format!("write the dataset of {name}"), generate),
        step(what, run),
    ]
}

/// The most of `hosts` that share `ranks` ranks and have as many each as rule 4.6.2 asks for.
fn hosts_of_ranks(edition: Edition, hosts: &[String], ranks: u64) -> Option<&[String]> {
    let least = least_ranks_of_host(edition);
    let fits = |count: &usize| ranks / *count as u64 >= least;
    let most = (1..=hosts.len()).rev().find(fits)?;
    hosts.get(..most)
}

fn checkpointing(
    model: &CheckpointWorkload,
    request: &PlanRequest,
    campaign: &mut CampaignPlan,
    problems: &mut Problems,
) {
    let ranks = model.parallelism_of_all_ranks().ranks();
    let bytes = model.layout(model.parallelism_of_all_ranks()).total_bytes();
    let count = f64::from(COUNT);
    let phase = |rate: Option<f64>| rate.map(|rate| count * (bytes as f64 / rate + PAUSE_SECONDS));
    let both = phase(request.write_bytes_per_second).zip(phase(request.read_bytes_per_second));
    campaign.results.push(PlannedResult {
        workload: model.name.clone(),
        accelerator: request.checkpoint_accelerator.clone(),
        accelerators: ranks,
        files: 0,
        // All of them are kept until they have been read.
        disk_bytes: bytes.saturating_mul(u64::from(COUNT)),
        runs: u64::from(COUNT),
        estimated_run_seconds: None,
        estimated_seconds: both.map(|(writes, reads)| writes + reads),
    });
    let (name, ten) = (model.name.as_str(), COUNT.to_string());
    let Some(hosts) = hosts_of_ranks(request.edition, &request.hosts, ranks) else {
        let what = format!("{name}: its {ranks} ranks are too few for one host (rule 4.6.2)");
        return problems.plan(what, "choose another model");
    };
    let few = on_fewer_hosts(hosts.len(), request);
    let place = (hosts, ranks);
    let command = |writes, reads| checkpoint_command(name, place, request, [writes, reads]);
    let memory = request.host_memory_bytes.saturating_mul(hosts.len() as u64);
    // v2.0 always clears caches.
    if request.edition == Edition::V3 && outgrows_memory(bytes, memory) {
        let what = format!("{name}: write and read {COUNT} checkpoints{few}");
        return campaign.steps.push(step(what, command(ten.as_str(), ten.as_str())));
    }
    let what = format!(
        "{name}: write {COUNT} checkpoints, clear the page cache of every client, and read them at \
         once{few}"
    );
    let (write, read) = (command(ten.as_str(), "0"), command("0", ten.as_str()));
    campaign.steps.push(step(what, format!("{write} && {} && {read}", clear_caches(hosts))));
}

/// Why a checkpoint is on so many of the hosts, and which system that is; nothing if it is on all.
fn on_fewer_hosts(hosts: usize, request: &PlanRequest) -> String {
    let all = request.hosts.len();
    if hosts == all {
        return String::new();
    }
    let system = system_on(hosts, request);
    let own = if system == request.system {
        String::new()
    } else {
        format!("; as the system {system}: one description has one number of clients (rule 2.1.9)")
    };
    format!(", on {hosts} of the {all} hosts (on more, each would have too few ranks){own}")
}

/// The command that clears the page cache of `hosts`.
fn clear_caches(hosts: &[String]) -> String {
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let clear = "'sync; echo 3 | sudo tee /proc/sys/vm/drop_caches'";
    format!("for host in {}; do ssh \"$host\" {clear}; done", line(&hosts))
}

fn checkpoint_command(
    name: &str,
    (hosts, ranks): (&[String], u64),
    request: &PlanRequest,
    [writes, reads]: [&str; 2],
) -> String {
    let system = system_on(hosts.len(), request);
    let (memory, ranks, hosts) = (memory(request), ranks.to_string(), hosts.join(","));
    let (api, environment, folder) = api_of(&request.checkpoints);
    let v2 = ["mlpstorage", "checkpointing", "run", "--model", name, "--closed"];
    let v3 = ["mlpstorage", "closed", "checkpointing", name, "run", api];
    let accelerator = request.checkpoint_accelerator.as_str();
    let of = ["--accelerator-type", accelerator, "--systemname", &system];
    let mut words = match request.edition {
        Edition::V2 => v2.to_vec(),
        Edition::V3 => [v3.as_slice(), &of].concat(),
    };
    let options = [
        ("--hosts", hosts.as_str()),
        ("--num-processes", &ranks),
        ("--client-host-memory-in-gb", &memory),
        ("--checkpoint-folder", folder),
        ("--results-dir", &request.results),
        ("--num-checkpoints-write", writes),
        ("--num-checkpoints-read", reads),
    ];
    words.extend(options.iter().flat_map(|(option, value)| [*option, *value]));
    format!("{environment}{}", line(&words))
}

#[cfg(test)]
#[path = "plan_tests.rs"]
#[allow(clippy::unwrap_used)]
pub(super) mod tests;
