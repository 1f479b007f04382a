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
    /// The file under mlpstorage's name. Its verification is never CLOSED or OPEN: only mlpstorage's
    /// own runs are.
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

/// Facts of the hosts with DLIO's keys and types: the CPU's name is a text up to v2.0, and a list
/// since v3.0. Single facts are those of the first machine, which is `host`.
pub(crate) fn hosts(host: &HostFacts, machines: &[Machine], is_v3: bool) -> Map<String, Value> {
    let alone = [this_machine(host)];
    let machines = match machines {
        [] => &alone,
        several => several,
    };
    let processor = if is_v3 {
        json!(each(machines, |machine| machine.cpu_model.clone()))
    } else {
        json!(machines[0].cpu_model)
    };
    let entry = |key: &str, value: Value| (key.to_string(), value);
    Map::from_iter([
        entry("num_hosts", machines.len().into()),
        entry("hostname", machines[0].hostname.clone().into()),
        entry("host_cpu_count", json!(each(machines, |machine| machine.cpus))),
        entry("host_processor_name", processor),
        entry("host_cpuinfo", json!({ "model name": machines[0].cpu_model })),
        entry(
            "host_meminfo",
            json!({ "MemTotal": format!("{} kB", machines[0].memory_bytes >> 10) }),
        ),
        entry(
            "host_memory_GB",
            json!(each(machines, |machine| machine.memory_bytes as f64 / GIB as f64)),
        ),
    ])
}

/// Facts of the host of process `rank`.
pub(crate) fn host_of(
    rank: u32,
    host: &HostFacts,
    group: Option<&GroupFacts>,
    is_v3: bool,
) -> Map<String, Value> {
    let own = group.and_then(|group| group.machine_of(rank));
    let mut entries = hosts(host, own.map_or(&[], std::slice::from_ref), is_v3);
    let count = machines(group).len().max(1);
    entries.insert("num_hosts".to_string(), count.into());
    entries
}

/// The machines of a run with several processes.
pub(crate) fn machines(group: Option<&GroupFacts>) -> &[Machine] {
    group.map_or(&[], |group| &group.machines)
}

/// The names of the hosts.
pub(crate) fn names(host: &HostFacts, group: Option<&GroupFacts>) -> Vec<String> {
    match machines(group) {
        [] => vec![host.hostname.clone()],
        several => each(several, |machine| machine.hostname.clone()),
    }
}

fn each<T>(machines: &[Machine], get: impl Fn(&Machine) -> T) -> Vec<T> {
    machines.iter().map(get).collect()
}

fn this_machine(host: &HostFacts) -> Machine {
    Machine {
        hostname: host.hostname.clone(),
        ranks: Vec::new(),
        cpus: host.cpus,
        cpu_model: host.cpu_model.clone(),
        memory_bytes: host.memory_bytes,
    }
}

/// `hydra.yaml`.
pub(crate) fn hydra(workload: &str, folder: &str) -> String {
    pretty(&json!({"hydra": {
        "job": {"name": "stormlp"},
        "runtime": { "output_dir": folder, "choices": {"workload": workload} },
    }}))
}

/// `overrides.yaml`: a list of words, quoted where YAML needs it.
pub(crate) fn override_list(lines: &[String]) -> String {
    serde_yaml::to_string(lines).expect("words are YAML")
}

/// JSON as DLIO indents it.
pub(crate) fn pretty(value: &Value) -> String {
    // Maps with text keys and finite numbers are always JSON.
    let mut text = serde_json::to_string_pretty(value).expect("plain values are JSON");
    text.push('\n');
    text
}
