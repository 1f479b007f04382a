//! What MLPerf's files of training and checkpoint runs share: folders, the facts of the host, the
//! metadata file that mlpstorage's report generator looks for, and the mark of who wrote them.

use serde_json::{Map, Value, json};
use stormlp_core::facts::HostFacts;
use stormlp_core::group::{GroupFacts, Machine};
use stormlp_core::units::GIB;

use stormlp_show::stamp;

const SECONDS_OF_A_DAY: u32 = 86_400;

/// One file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputFile {
    /// Where, below the folder that was asked for.
    pub path: String,
    /// What.
    pub content: String,
}

/// What a metadata file says of a run.
pub(crate) struct Metadata<'a> {
    /// `training` or `checkpointing`.
    pub(crate) benchmark: &'static str,
    /// The run's folder.
    pub(crate) folder: &'a str,
    pub(crate) started_unix_seconds: f64,
    pub(crate) runtime_seconds: f64,
    /// The command that was typed.
    pub(crate) command: &'a str,
    /// As mlpstorage's options would say it.
    pub(crate) args: Value,
    /// What `overrides.yaml` lists.
    pub(crate) overrides: &'a [String],
    /// What `config.yaml` holds.
    pub(crate) config: Value,
    /// Whose file it is.
    pub(crate) mark: Value,
}

impl Metadata<'_> {
    /// The file, under the name that mlpstorage gives it. It never says CLOSED or OPEN: only
    /// mlpstorage's own runs are either.
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

/// The second in which a run began, as mlpstorage names folders after it.
pub(crate) fn run_moment(started_unix_seconds: f64) -> String {
    let moment = stamp::moment(started_unix_seconds);
    moment.format("%Y%m%d_%H%M%S").to_string()
}

/// The folder below `parent` that is named for the second in which a run began, or for the first
/// second after it of which `taken` says no: the rules know no other names than moments.
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
    // No day has a run in each of its seconds.
    names.find(|name| !taken(name)).unwrap_or_else(|| named(0))
}

/// The facts of the hosts under DLIO's keys and with its types: the name of the processor is a text
/// up to v2.0, and since v3.0 a list with one for each host. Of several `machines` what is told of one
/// is the first one's, that of `host`.
pub(crate) fn hosts(host: &HostFacts, machines: &[Machine], is_v3: bool) -> Map<String, Value> {
    let alone = [of_host(host)];
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

/// The same as process `rank` of several tells of its own host.
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

/// The machines of a run that has several processes.
pub(crate) fn machines(group: Option<&GroupFacts>) -> &[Machine] {
    group.map_or(&[], |group| &group.machines)
}

/// The names of the hosts, as they are named to mlpstorage.
pub(crate) fn names(host: &HostFacts, group: Option<&GroupFacts>) -> Vec<String> {
    match machines(group) {
        [] => vec![host.hostname.clone()],
        several => each(several, |machine| machine.hostname.clone()),
    }
}

fn each<T>(machines: &[Machine], get: impl Fn(&Machine) -> T) -> Vec<T> {
    machines.iter().map(get).collect()
}

fn of_host(host: &HostFacts) -> Machine {
    Machine {
        hostname: host.hostname.clone(),
        ranks: Vec::new(),
        cpus: host.cpus,
        cpu_model: host.cpu_model.clone(),
        memory_bytes: host.memory_bytes,
    }
}

/// `hydra.yaml`: what Hydra would say of the job.
pub(crate) fn hydra(workload: &str, folder: &str) -> String {
    pretty(&json!({"hydra": {
        "job": {"name": "stormlp"},
        "runtime": { "output_dir": folder, "choices": {"workload": workload} },
    }}))
}

/// `overrides.yaml`: a list of words, quoted where YAML would take them for something else.
pub(crate) fn override_list(lines: &[String]) -> String {
    serde_yaml::to_string(lines).expect("words are YAML")
}

/// JSON as DLIO indents it.
pub(crate) fn pretty(value: &Value) -> String {
    // Maps with text keys and finite numbers: nothing that JSON cannot hold.
    let mut text = serde_json::to_string_pretty(value).expect("plain values are JSON");
    text.push('\n');
    text
}
