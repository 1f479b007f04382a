//! `stormlp gds`: makes a plan from arguments, facts and files, and prints or runs it.

mod lane;
mod resume;

use std::fs;
use std::path::PathBuf;

use stormlp_core::location::names_object;
use stormlp_core::path::PathKind;
use stormlp_core::report::ReportKind;
use stormlp_core::transport::EngineChoice;
use stormlp_matrix::plan::{Fill, MatrixRequest};
use stormlp_matrix::run::agreement;
use stormlp_matrix::show as matrix;

use super::deliver::OutputArgs;
use super::saved;
use crate::commands::idle::refuse;
use stormlp_core::failure::Failure;
use stormlp_hosts::session::Session;

pub(crate) use lane::{measure, report};

/// Arguments of `stormlp gds`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp gds /mnt/nvme -b 1M -t 8              the paths of this machine, one table
  stormlp gds --preset training --dir /mnt/nvme --output training.md
  stormlp gds --find-knee --path cpu --io-size 64K,1M --dir /mnt/nvme
  AWS_ENDPOINT_URL=http://n1:9000 stormlp gds --dir s3://bucket/gds --threads 1,16
  mpirun -n 4 --map-by ppr:1:node --bind-to none stormlp gds --dir /shared/gds     four hosts

Sizes: K, M, G are powers of 1024; kB, MB, GB of 1000.")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) matrix: MatrixRequest,

    /// Files are local to each host
    #[arg(long, help_heading = "Several hosts")]
    local_storage: bool,

    #[command(flatten)]
    output: OutputArgs,

    /// Print the plan and exit
    #[arg(long)]
    dry_run: bool,

    /// Continue a saved report with the same options
    #[arg(long, value_name = "REPORT", conflicts_with_all = ["results_dir"])]
    pub(crate) resume: Option<PathBuf>,
}

/// Runs the matrix.
pub(crate) fn run(args: Args, session: &Session) -> Result<(), Failure> {
    let peers = session.peers(args.local_storage)?;
    let request = complete(args.matrix);
    let resume = args.resume.as_deref();
    let saved = resume.filter(|_| session.group.leads());
    let saved = saved.map(|path| resume::read(path, &peers)).transpose();
    let (saved, request) = match saved {
        Ok(saved) => (saved, request),
        Err(failure) => (None, Err(failure)),
    };
    let request = request.map(|request| MatrixRequest { resumes: resume.is_some(), ..request });
    let (plan, facts) = agreement::prepare(request, (args.dry_run, resume), &peers, session)?;
    if args.dry_run {
        let layouts = peers.exchange(&plan.layout())?;
        return if session.group.leads() {
            args.output.print_plan(&plan, false, |plan| matrix::plan(plan, &layouts))
        } else {
            Ok(())
        };
    }
    let mut delivery = peers.agree(args.output.open(ReportKind::Gds))?;
    delivery.resumes = resume.map(saved::file).transpose()?;
    let mut report = report(plan, delivery.head(facts, session));
    if resume.is_some() {
        resume::add_saved(&mut report, saved, &peers, session)?;
    }
    measure(report, true, &delivery, (&peers, session))
}

/// The request with its preset, or the defaults, for omitted options.
///
/// # Errors
/// With exit code 2 if an option has no effect.
fn complete(mut request: MatrixRequest) -> Result<MatrixRequest, Failure> {
    for target in std::mem::take(&mut request.targets) {
        let found = fs::metadata(&target).ok();
        let is_word = found.is_none() && target.components().count() == 1;
        if is_word && !names_object(&target) {
            let word = target.display();
            let help = format!("for a new folder of this name: stormlp gds --dir {word}");
            return Err(Failure::usage(format!("{word} is not there")).with_help(help));
        }
        let is_file = found.is_some_and(|found| !found.is_dir());
        if is_file && target.extension().is_some_and(|end| end == "fio") {
            let fact = format!("{} is a job file of fio, not storage", target.display());
            let help = "name a folder or device, and give fio's options: each error names ours";
            return Err(Failure::usage(fact).with_help(help));
        }
        let targets = if is_file { &mut request.files } else { &mut request.folders };
        targets.push(target);
    }
    let request = request.complete();
    if request.find_knee && request.threads.len() == 1 && request.queue_depths.len() == 1 {
        return Err(Failure::usage(
            "--find-knee needs several settings to search: --threads and --queue-depth name one setting; \
             give several of one of them, or leave out one",
        ));
    }
    let paths = request.paths();
    if !paths.iter().any(|path| path.ends_in_accelerator()) {
        let options = [("--tune wait", request.tune.machine.wait.is_some())];
        refuse(&options, "where transfers end in host memory")?;
    }
    if !paths.iter().any(|path| path.needs_cufile()) {
        let options = [
            ("--tune register", !request.tune.register),
            ("--tune cufile-stats", request.tune.machine.cufile_stats.is_some()),
        ];
        refuse(&options, "without a --path that uses cuFile")?;
    }
    if request.fill == Fill::Zero {
        refuse(&[("--tune regenerate", request.tune.regenerate)], "with --fill zero")?;
    }
    if paths.iter().all(|path| matches!(path, PathKind::S3 | PathKind::Null)) {
        let options = [("--engine", request.engine != EngineChoice::Auto)];
        refuse(&options, "on objects and with path null")?;
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    /// Options of `stormlp gds`, as a separate command.
    #[derive(clap::Parser)]
    struct Options {
        #[command(flatten)]
        matrix: MatrixRequest,
    }

    fn request(line: &str) -> MatrixRequest {
        let options = Options::try_parse_from(line.split_whitespace()).unwrap();
        options.matrix.complete()
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        for words in [
            "--threads 0",
            "--threads 1000000",
            "--queue-depth 0",
            "--runs 0",
            "--duration 0x",
            "--duration 0",
            "--duration 9000h",
            "--io-size 0",
            "--io-size 2G",
            "--file-size 0",
            "--read-percent 101",
            "--job dir=/a,threads=0",
        ] {
            let line = format!("gds {words}");
            assert!(Options::try_parse_from(line.split_whitespace()).is_err(), "{words}");
        }
    }

    #[test]
    fn without_options_the_request_is_the_plain_one() {
        assert_eq!(request("gds --dir data"), MatrixRequest::plain("data".into()));
        assert_eq!(request("gds"), MatrixRequest::plain("stormlp-data/gds".into()));
    }

    #[test]
    fn flags_and_lists_reach_the_request() {
        let request = request(
            "gds --tune alignment=1,register=no --clean --fsync end --file /dev/a --file /dev/b \
             --io-size 4K,1M:3M:1M --path auto,cpu --warmup 1s --runs 3",
        );
        assert_eq!(request.tune.random_alignment_bytes, 1);
        assert!(request.remove && !request.tune.register && request.names_paths());
        assert_eq!(request.fsync, stormlp_matrix::plan::Fsync::End);
        assert_eq!(request.io_sizes.len(), 4);
        assert_eq!((request.paths().len(), request.runs()), (4, 3));
        assert_eq!((&*request.jobs[1].name, request.warmup_seconds), ("job1", 1.0));
    }
}
