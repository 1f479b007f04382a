//! Requirements of the run, checked before any measurement: a missing one is the only finding of
//! the report, instead of a failure of every check.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::process::run;
use crate::report::Report;

/// The machine's features, from `stormlp doctor`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Preflight {
    /// Why no check can run, if so.
    pub(crate) blocked: Option<String>,
    /// Why cuFile accepts no file of the folder, if so.
    pub(crate) refused: Option<String>,
    /// Why cells should be direct here, if they should.
    pub(crate) should_be_direct: Option<String>,
    /// Why none is due otherwise.
    why_not: &'static str,
    /// Whether a GPU offers memory for peer-to-peer DMA.
    pub(crate) has_p2pdma: bool,
}

impl Preflight {
    /// The machine according to `doctor`, with each fact reported.
    pub(crate) fn look(doctor: Result<Value, String>, report: &mut Report) -> Self {
        match doctor {
            Ok(machine) => {
                let found = Self::of(&machine);
                facts(&machine, report);
                found.tell(report);
                found
            }
            Err(why) => {
                let blocked = format!("stormlp doctor: {why}");
                report.fail("preflight", &blocked);
                Self { blocked: Some(blocked), ..Self::default() }
            }
        }
    }

    /// Conclusions from the machine's facts.
    pub(crate) fn of(machine: &Value) -> Self {
        let host = &machine["host"];
        let gpus = host["accelerators"].as_array().map_or(0, Vec::len);
        let gds = path(host, "gds");
        let has_library = known(&machine["gpu"]["cufile"]["version"]).is_some();
        let reason = |availability: &Value| {
            let words = [availability["fact"].as_str(), availability["remedy"].as_str()];
            words.into_iter().flatten().collect::<Vec<_>>().join("; ")
        };
        let is_available = gds["status"] == "available";
        let blocked = if gpus == 0 {
            let hidden = host["hidden_gpus"]["reason"].as_str();
            let problem = hidden.or(host["cuda_problem"].as_str());
            let on_bus = known(&machine["gpu"]["devices"]).and_then(Value::as_array);
            Some(if on_bus.is_some_and(Vec::is_empty) && hidden.is_none() {
                "this machine has no NVIDIA GPU: none is on the PCI bus".to_string()
            } else {
                format!("CUDA shows no GPU: {}", problem.unwrap_or("it names no reason"))
            })
        } else if !has_library {
            Some(format!("there is no usable libcufile: {}", reason(gds)))
        } else {
            None
        };
        let pci = known(&machine["gpu"]["devices"]).and_then(Value::as_array);
        let has_p2pdma = pci.into_iter().flatten().any(|gpu| {
            known(&gpu["p2p_memory_bytes"]).and_then(Value::as_u64).is_some_and(|bytes| bytes > 0)
        });
        let by_nvfs = known(&machine["gpu"]["nvidia_fs"]).map(|_| "nvidia-fs is loaded");
        let by_p2p = has_p2pdma.then_some("a GPU offers memory for peer-to-peer DMA");
        let file_system = known(&machine["storage"]["filesystem"]);
        let kind = file_system.and_then(|found| found["kind"].as_str()).unwrap_or_default();
        let on_nvme = known(&machine["storage"]["devices"]).is_some_and(|devices| {
            let devices = devices.as_array().into_iter().flatten();
            let mut names = devices.filter_map(|device| device["name"].as_str());
            names.any(|name| name.starts_with("nvme"))
        });
        let fits = matches!(kind, "ext4" | "xfs") && on_nvme;
        Self {
            refused: (blocked.is_none() && !is_available).then(|| reason(gds)),
            should_be_direct: by_nvfs
                .or(by_p2p)
                .filter(|_| fits)
                .map(|why| format!("{why}, and the folder is {kind} on NVMe")),
            why_not: if fits {
                "neither nvidia-fs nor peer-to-peer memory"
            } else {
                "the folder is not ext4 or xfs on NVMe"
            },
            has_p2pdma,
            blocked,
        }
    }

    fn tell(&self, report: &mut Report) {
        match (&self.blocked, &self.refused) {
            (Some(why), _) => report.fail("preflight", format!("{why}. Nothing else was checked")),
            (None, Some(why)) => report.fail(
                "preflight",
                format!("{why}. Checks of cuFile's paths in this folder are skipped"),
            ),
            (None, None) => report.pass("preflight", "a GPU, a libcufile and a folder it takes"),
        }
        let not = format!("no: {}", self.why_not);
        report.note("a direct route is due", self.should_be_direct.as_deref().unwrap_or(&not));
    }
}

/// The facts that say what a report is about.
fn facts(machine: &Value, report: &mut Report) {
    let (gpu, storage) = (&machine["gpu"], &machine["storage"]);
    for key in ["driver_version", "driver_open", "driver_registry", "cuda", "cufile", "nvidia_fs"] {
        report.note(key, gpu[key].to_string());
    }
    for candidate in gpu["cufile_candidates"].as_array().into_iter().flatten() {
        report.note("a libcufile here", candidate.to_string());
    }
    report.note("GPUs", machine["host"]["accelerators"].to_string());
    report.note("GPUs on the bus", gpu["devices"].to_string());
    report.note("kernel P2PDMA", gpu["kernel_p2pdma"].to_string());
    report.note("file system of the folder", storage["filesystem"].to_string());
    let udev = Path::new("/run/udev/data").is_dir();
    let words = if udev { "readable" } else { "missing: cuFile rejects files on ext4 and xfs" };
    report.note("/run/udev", words);
}

/// The output of `nvidia-smi`, or why there is none.
pub(crate) fn nvidia_smi() -> String {
    let told = run(Command::new("nvidia-smi").arg("-q"));
    match told.code {
        Some(0) => told.stdout,
        _ => told.to_text(),
    }
}

/// The availability of a path.
fn path<'a>(host: &'a Value, name: &str) -> &'a Value {
    let mut paths = host["paths"].as_array().into_iter().flatten();
    paths.find(|path| path["path"] == name).map_or(&Value::Null, |path| &path["availability"])
}

/// The value of a fact; `None` if it is unknown.
fn known(fact: &Value) -> Option<&Value> {
    fact.get("known")
}
