//! `stormlp report`: shows saved reports in any format, or lists folders of them.

mod list;

use std::path::PathBuf;

use crate::any_report::AnyReport;
use stormlp_core::report::{Head, ReportKind};
use stormlp_core::tag::{self, Tag, Tags};
use stormlp_core::units::counted;
use stormlp_mlperf::dlio;
use stormlp_show::html::Sheet;

use super::deliver::{Forms, ShowArgs, Targets};
use super::saved;
use crate::output;
use stormlp_core::failure::Failure;
use stormlp_hosts::saver::results_folder;
use stormlp_hosts::session::Session;

/// Arguments of `stormlp report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp report                                        reports in ./stormlp-results
  stormlp report stormlp-results --kind train --tag ssd=new
                                                        only some of them
  stormlp report stormlp-results/gds-matrix-20261121-101502 --output page.html
                                                        charts, tables and evidence in one page
  stormlp report before after --output both.html        two reports side by side
  stormlp report results/training/unet3d/run/20261121_101502
                                                        DLIO's summary.json with the files of its ranks
  stormlp report after/report.json --baseline before/report.json --format markdown
  stormlp report stormlp-results --output /var/lib/node_exporter/stormlp.prom")]
pub(crate) struct Args {
    /// Saved reports, their folders, or folders of such folders, which are listed; or a
    /// summary.json of DLIO or mlpstorage, or its folder [default: $STORMLP_RESULTS_DIR, else
    /// stormlp-results]
    #[arg(value_name = "PATH")]
    places: Vec<PathBuf>,

    /// Only reports of this command
    #[arg(long, value_enum)]
    kind: Option<ReportKind>,

    /// Only reports with this tag; repeatable, reports must have all tags
    #[arg(long, value_name = "KEY=VALUE")]
    tag: Vec<Tag>,

    #[command(flatten)]
    show: ShowArgs,
}

/// The report filter.
#[derive(Debug)]
struct Filter {
    kind: Option<ReportKind>,
    tags: Tags,
}

impl Filter {
    /// Whether a report passes the filter.
    fn takes(&self, head: &Head) -> bool {
        let has = |(key, value): (&String, &String)| head.tags.get(key) == Some(value);
        self.kind.is_none_or(|kind| head.kind == kind) && self.tags.iter().all(has)
    }

    /// Whether every report passes.
    fn is_open(&self) -> bool {
        self.kind.is_none() && self.tags.is_empty()
    }

    /// The reports that pass, newest last.
    ///
    /// # Errors
    /// If none of `count` reports does.
    fn taken(&self, mut reports: Vec<AnyReport>, count: usize) -> Result<Vec<AnyReport>, Failure> {
        reports.retain(|report| self.takes(report.head()));
        reports.sort_by(|a, b| a.head().started_at.cmp(&b.head().started_at));
        if reports.is_empty() { Err(self.none_of(count)) } else { Ok(reports) }
    }

    /// The failure if none of `count` reports passes.
    fn none_of(&self, count: usize) -> Failure {
        let reports = counted(count as u64, "report");
        if self.is_open() {
            // The reason for each was already printed.
            return Failure::no_plan(match count {
                1 => anyhow::anyhow!("the report cannot be read"),
                _ => anyhow::anyhow!("{reports}, none of which can be read"),
            });
        }
        let kind = self.kind.map(|kind| format!("--kind {}", kind.name()));
        let tags = self.tags.iter().map(|(key, value)| format!("--tag {key}={value}"));
        let asked: Vec<String> = kind.into_iter().chain(tags).collect();
        Failure::machine(anyhow::anyhow!("{reports}, none of which has {}", asked.join(" ")))
            .with_help("`stormlp report` without --kind and --tag lists them all")
    }
}

/// Shows reports, or lists folders of them.
pub(crate) fn run(args: Args, _session: &Session) -> Result<(), Failure> {
    let filter = Filter { kind: args.kind, tags: tag::collect(&args.tag).map_err(Failure::usage)? };
    let show = args.show;
    let places = if args.places.is_empty() { vec![results_folder()] } else { args.places };
    if let [only] = places.as_slice()
        && !only.exists()
    {
        let message = match only.to_str() {
            Some("list" | "show") => format!("{} is no folder", only.display()),
            _ => format!("there are no reports in {}", only.display()),
        };
        let help = "run `stormlp gds` first; then `stormlp report` lists its reports, and `stormlp \
                    report DIR` those of another folder";
        return Err(Failure::machine(anyhow::anyhow!(message)).with_help(help));
    }
    let files: Vec<PathBuf> =
        places.iter().map(|place| saved::file(place)).collect::<Result<_, _>>()?;
    if let [only] = files.as_slice()
        && let Some(run) = saved::dlio(only)?
    {
        if !filter.is_open() {
            return Err(Failure::usage("--kind and --tag are for stormlp's own reports"));
        }
        let targets = show.open_other("DLIO's files", &[])?;
        return targets.answer(&run.summary, dlio::document(&run), Sheet::from);
    }
    if files.iter().any(|file| file.is_dir()) {
        let targets = show.open_other("a folder of them", &list::columns())?;
        return list::show(&files, &filter, &targets);
    }
    let reports: Result<_, Failure> = files.iter().map(|file| saved::any(file)).collect();
    let reports = filter.taken(reports?, files.len())?;
    match (files.as_slice(), reports.as_slice()) {
        ([_], [report]) => show.open(report.head().kind)?.write(report),
        _ => several(&reports, &show.open_other("several of them", &[])?),
    }
}

/// Shows several reports at once.
fn several(reports: &[AnyReport], targets: &Targets) -> Result<(), Failure> {
    let forms = Forms {
        documents: reports.iter().map(|report| report.document()).collect(),
        json: &|| {
            let sealed: Result<Vec<_>, _> = reports.iter().map(AnyReport::sealed).collect();
            output::json(&sealed.map_err(Failure::bug)?)
        },
        sheets: &|| reports.iter().map(|report| Sheet::new(&**report, report.document())).collect(),
        reports: reports.iter().collect(),
    };
    targets.deliver(&forms)
}
