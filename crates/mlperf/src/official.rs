//! Parts that MLPerf's files of training and checkpoint runs share: folders, host facts, and the
//! metadata that mlpstorage's report generator reads.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use stormlp_core::facts::HostFacts;
use stormlp_core::group::{GroupFacts, Machine};
use stormlp_core::units::GIB;

use stormlp_show::stamp;

const SECONDS_OF_A_DAY: u32 = 86_400;

/// The override of runs on objects, which the rules of file systems are not for.
pub(crate) const OBJECT_STORAGE: &str = "++workload.storage.storage_type=s3";

/// The folder of results below which files are written, as metadata names it.
pub(crate) fn results_dir(folder: &Path) -> PathBuf {
    std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf())
}

/// A file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputFile {
    /// Its path below the output folder.
    pub path: String,
    /// Its content.
    pub content: String,
}

/// The content of a run's metadata file.
pub(crate) struct Metadata<'a> {
    /// `training` or `checkpointing`.
    pub(crate) benchmark: &'static str,
    pub(crate) folder: &'a str,
    pub(crate) started_unix_seconds: f64,
    pub(crate) runtime_seconds: f64,
    pub(crate) command: &'a str,
    /// mlpstorage's arguments.
    pub(crate) args: Value,
    /// The lines of `overrides.yaml`.
    pub(crate) overrides: &'a [String],
    /// The content of `config.yaml`.
    pub(crate) config: Value,
    /// stormlp's mark.
    pub(crate) mark: Value,
}

impl Metadata<'_> {
    /// The files of a run of DLIO: its summary, the statistics and the output of each rank, and its
    /// configuration.
    pub(crate) fn dlio_files(
        self,
        workload: &str,
        summary: &Value,
        ranks: impl Iterator<Item = [Value; 2]>,
        config: String,
    ) -> Vec<OutputFile> {
        let folder = self.folder;
        let file = |name: &str, content| OutputFile { path: format!("{folder}/{name}"), content };
        let mut files = vec![file("summary.json", pretty(summary))];
        for (rank, [stats, output]) in ranks.enumerate() {
            files.push(file(&format!("{rank}_per_epoch_stats.json"), pretty(&stats)));
            files.push(file(&format!("{rank}_output.json"), pretty(&output)));
        }
        let overrides = serde_yaml::to_string(self.overrides).expect("words are YAML");
        let hydra = json!({"hydra": {
            "job": {"name": "stormlp"},
            "runtime": { "output_dir": folder, "choices": {"workload": workload} },
        }});
        files.extend([
            file("dlio_config/config.yaml", config),
            file("dlio_config/overrides.yaml", overrides),
            file("dlio_config/hydra.yaml", pretty(&hydra)),
            self.file(),
        ]);
        files
    }

    /// The file under mlpstorage's name. Its verification is never CLOSED or OPEN: only runs of
    /// mlpstorage are.
    pub(crate) fn file(self) -> OutputFile {
        let moment = run_moment(self.started_unix_seconds);
        let name = format!("{}_{moment}_metadata.json", self.benchmark);
        let path = format!("{}/{name}", self.folder);
        let prefix = "++workload.";
        let params = self.overrides.iter().filter_map(|line| {
            let (key, value) = line.strip_prefix(prefix)?.split_once('=')?;
            Some((key.to_string(), Value::from(value)))
        });
        let content = pretty(&json!({
            "benchmark_type": self.benchmark,
            "generator": "stormlp",
            "verification": "REHEARSAL",
            "stormlp": self.mark,
            "args": self.args,
            "run_datetime": moment,
            "run_number": 0,
            "runtime": self.runtime_seconds,
            "executed_command": self.command,
            "command_output_files": [],
            "params_dict": params.collect::<Map<_, _>>(),
            "yaml_params": self.config,
            "combined_params": self.config["workload"],
            "run_result_output": self.folder,
            "metadata_filename": name,
            "metadata_file_path": path,
        }));
        OutputFile { path, content }
    }
}

/// The start of a run in the form of mlpstorage's folder names.
pub(crate) fn run_moment(started_unix_seconds: f64) -> String {
    let moment = stamp::moment(started_unix_seconds);
    moment.format("%Y%m%d_%H%M%S").to_string()
}

/// The folder below `parent` named after the second in which a run started, or after the next second
/// that is not `taken`: the rules allow no other names.
pub(crate) fn free_folder(
    parent: &str,
    started_unix_seconds: f64,
    taken: impl Fn(&str) -> bool,
) -> String {
    let named = |later: u32| {
        let moment = run_moment(started_unix_seconds + f64::from(later));
        format!("{parent}/{moment}")
    };
    let mut names = (0..SECONDS_OF_A_DAY).map(named);
    // No day has a run in every second.
    names.find(|name| !taken(name)).unwrap_or_else(|| named(0))
}

/// The folder for runs of a benchmark: v3.0's tool has one for each system.
pub(crate) fn parent(is_v3: bool, host: &HostFacts, runs: &str) -> String {
    if is_v3 {
        format!("whatif/stormlp/results/{}/{runs}", host.hostname)
    } else {
        runs.to_string()
    }
}

/// `value` with facts of the hosts by DLIO's keys and types: the CPU's name is a text up to v2.0,
/// and a list since v3.0. Single facts come from the first machine.
pub(crate) fn with_hosts(mut value: Value, machines: &[Machine], is_v3: bool) -> Value {
    let first = &machines[0];
    value["num_hosts"] = machines.len().into();
    value["hostname"] = first.hostname.clone().into();
    value["host_cpu_count"] = machines.iter().map(|machine| machine.cpus).collect();
    value["host_processor_name"] = if is_v3 {
        machines.iter().map(|machine| machine.cpu_model.clone()).collect()
    } else {
        first.cpu_model.clone().into()
    };
    value["host_cpuinfo"] = json!({ "model name": first.cpu_model });
    value["host_meminfo"] = json!({ "MemTotal": format!("{} kB", first.memory_bytes >> 10) });
    let gib = |machine: &Machine| machine.memory_bytes as f64 / GIB as f64;
    value["host_memory_GB"] = machines.iter().map(gib).collect();
    value
}

/// Facts of the host of process `rank`.
pub(crate) fn host_of(rank: u32, machines: &[Machine], is_v3: bool) -> Value {
    let own = machines.iter().position(|machine| machine.ranks.contains(&rank)).unwrap_or(0);
    let mut facts = with_hosts(json!({}), &machines[own..=own], is_v3);
    facts["num_hosts"] = machines.len().into();
    facts
}

/// The machines of a run, never none.
pub(crate) fn machines(host: &HostFacts, group: Option<&GroupFacts>) -> Vec<Machine> {
    match group {
        Some(group) if !group.machines.is_empty() => group.machines.clone(),
        _ => vec![Machine {
            hostname: host.hostname.clone(),
            ranks: vec![0],
            cpus: host.cpus,
            cpu_model: host.cpu_model.clone(),
            memory_bytes: host.memory_bytes,
        }],
    }
}

/// The names of the hosts.
pub(crate) fn names(machines: &[Machine]) -> Vec<String> {
    machines.iter().map(|machine| machine.hostname.clone()).collect()
}

/// JSON as DLIO indents it.
pub(crate) fn pretty(value: &Value) -> String {
    // Maps with text keys and finite numbers are always JSON.
    let mut text = serde_json::to_string_pretty(value).expect("plain values are JSON");
    text.push('\n');
    text
}
