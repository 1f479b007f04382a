//! `stormlp gdsio …`: gdsio's arguments and job files on the same engine.

use std::path::Path;

use clap::builder::FalseyValueParser;
use stormlp_core::facts::HostFacts;
use stormlp_core::location::names_object;
use stormlp_core::shell::shell_word;
use stormlp_core::transport::DeviceId;
use stormlp_matrix::plan::MatrixRequest;
use stormlp_matrix::plan::gdsio::{
    GdsioArgs, GdsioRun, emulate, in_gdsios_words, parse_args, parse_job_file,
};
use stormlp_matrix::run::agreement;

use super::deliver::Delivery;
use super::gds;
use crate::commands::workloads::read_text;
use crate::output;
use stormlp_core::failure::Failure;
use stormlp_hosts::session::Session;

/// Arguments of `stormlp gdsio`: gdsio's, passed on unchanged.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// gdsio's arguments; `stormlp gdsio -h` explains them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "GDSIO ARGUMENTS")]
    words: Vec<String>,

    /// Emulate GPUs with host memory; an option of stormlp, anywhere in the line
    #[arg(long, env = "STORMLP_EMULATE", value_parser = FalseyValueParser::new())]
    emulate: bool,
}

const HELP: &str = "\
gdsio's arguments over stormlp's engine; an existing script runs with one word changed.

Usage: stormlp gdsio [--emulate] (-D DIR | -f FILE) [-d GPU] [-n NODE] [-w WORKERS] … [OPTIONS]
       stormlp gdsio [--emulate] JOBFILE.gdsio

Jobs (with several -D or -f, the options after one belong to it):
  -D DIR   folder with one file per worker, gdsio.0 and so on; missing files are created
  -f FILE  one file for all workers
  -d GPU   GPU [default: the first, or emulated memory without one]
  -n NODE  NUMA node of the workers
  -w N     workers [default: 1]; entries of a batch with -x 6 and 7

Transfers:
  -x TYPE  0 GPUD, 1 CPUONLY, 2 CPU_GPU, 3 CPU_ASYNC_GPU, 4 CPU_CACHED_GPU, 5 GPUD_ASYNC,
           6 GPU_BATCH, 7 GPU_BATCH_STREAM [default: 0]
  -I KIND  0 read, 1 write, 2 randread, 3 randwrite [default: 0]
  -i SIZE  transfer size, or min:max:step [default: 1M]
  -s SIZE  size of each file; with -f of the file, which the workers split
  -o SIZE  start offset       -T SECONDS  duration [default: one pass]
  -V       verify             -k SEED     seed of random offsets
  -U       unaligned offsets  -a SIZE     alignment of random offsets
  -R       random content (always so here)   -F  regenerated for every write
  -B N     entries of a batch -M PERCENT  share of reads in a batch
  -m KIND  0 device, 1 vmm, 2 pinned, 3 malloc, 4 mmap      -b  do not register buffers
  -O 1     open files without O_DIRECT (not with -x 3)      -J  a line for each job

Options of stormlp:
  --emulate                emulate GPUs with host memory (STORMLP_EMULATE=1)
  --destroy-data[=NAME,…]  allow writing to a -f file of another program or block device; =ext4,gpt if
                           it has these signatures

Not supported: -P (RDMA sockets), -p (peer access between GPUs).

Examples:
  stormlp gdsio -D /mnt/nvme/gdsio -w 8 -s 1G -i 1M -x 0 -I 1
  stormlp gdsio -f /mnt/nvme/file -d 0 -w 4 -s 4G -i 1M -x 2 -I 0 -T 10
  stormlp gdsio rw-sample.gdsio
";

/// Runs gdsio's arguments and prints gdsio's result line.
pub(crate) fn run(mut args: Args, session: &Session) -> Result<(), Failure> {
    let own = OwnOptions::taken_from(&mut args);
    let is_help = |word: &String| word == "--help";
    if args.words.is_empty() || args.words.iter().any(is_help) {
        return output::print(HELP);
    }
    let usage = |error| Failure::usage(error).with_help("stormlp gdsio -h");
    let run = match parse_args(&args.words).map_err(usage)? {
        GdsioArgs::Help => return output::print(HELP),
        GdsioArgs::Run(run) => *run,
        GdsioArgs::JobFile(path) => job_file(&path)?,
    };
    let mut request = run.to_request().map_err(usage)?;
    if let Some(job) = request.jobs.iter().find(|job| names_object(job.target.path())) {
        let place = shell_word(&job.target.path().display().to_string());
        let usage = Failure::usage(format!("gdsio has files, and {place} names objects"));
        return Err(usage.with_help(format!("stormlp gds --dir {place}")));
    }
    request.destroy_data = own.destroy_data;
    measure(request, own.emulate, run.per_job, session)
        .map_err(|failure| failure.reworded(in_gdsios_words))
}

/// Plans and runs the matrix of a command line.
fn measure(
    mut request: MatrixRequest,
    emulated: bool,
    per_job: bool,
    session: &Session,
) -> Result<(), Failure> {
    let facts = agreement::host_facts(&request, session)?;
    let lacks_gpu = lacks_gpu(&request, &facts);
    if emulated && let Some(note) = emulate(&mut request, &facts) {
        output::say(format!("note: {note}"));
    }
    let plan = agreement::plan(&request, &facts, session).map_err(|failure| match lacks_gpu {
        true if !emulated => offer_emulation(failure),
        _ => failure,
    })?;
    let delivery = Delivery::gdsio(per_job);
    let report = gds::report(plan, delivery.head(facts, session));
    gds::measure(report, false, &delivery, (&session.peers(false)?, session))
}

/// stormlp's options, which may appear anywhere in a line: clap leaves everything after gdsio's
/// first flag to gdsio.
#[derive(Default)]
struct OwnOptions {
    emulate: bool,
    destroy_data: Option<Vec<String>>,
}

impl OwnOptions {
    /// Removes them from the arguments.
    fn taken_from(args: &mut Args) -> Self {
        let mut own = Self { emulate: args.emulate, ..Self::default() };
        let mut others = Vec::new();
        for word in std::mem::take(&mut args.words) {
            match word.split_once('=').unwrap_or((&word, "")) {
                ("--emulate", "") => own.emulate = true,
                ("--destroy-data", names) => {
                    let names = names.split(',').filter(|name| !name.is_empty());
                    own.destroy_data.get_or_insert_default().extend(names.map(str::to_string));
                }
                _ => others.push(word),
            }
        }
        args.words = others;
        own
    }
}

/// Whether the line needs a GPU, or a GPU library, that this machine lacks.
fn lacks_gpu(request: &MatrixRequest, facts: &HostFacts) -> bool {
    let is_missing = |device: DeviceId| {
        let index = device.gpu_index();
        index.is_some_and(|index| facts.accelerators.iter().all(|gpu| gpu.index != index))
    };
    let mut devices = request.jobs.iter().filter_map(|job| job.device);
    let mut paths = request.paths().into_iter();
    facts.hidden_gpus.is_some()
        || devices.any(is_missing)
        || paths.any(|path| {
            path.needs_cufile()
                && (facts.accelerators.is_empty() || !facts.support(path).is_available())
        })
}

/// Suggests the flag that emulates a GPU, instead of options that gdsio does not have.
fn offer_emulation(failure: Failure) -> Failure {
    const OFFER: &str =
        "--emulate (or STORMLP_EMULATE=1) emulates GPUs with host memory, labelled as such";
    let own = failure.note.remedy.split("; ").filter(|part| !part.contains("host measures"));
    let parts: Vec<&str> = own.filter(|part| !part.is_empty()).chain([OFFER]).collect();
    let help = parts.join("; ");
    failure.with_help(help)
}

fn job_file(path: &Path) -> Result<GdsioRun, Failure> {
    let text = read_text(path, "job file")?;
    parse_job_file(&text, &|name| std::env::var(name).ok())
        .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}
