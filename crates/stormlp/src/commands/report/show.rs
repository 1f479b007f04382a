//! Saved reports, one or several, in any format.

use std::path::PathBuf;

use stormlp_core::failure::Failure;
use stormlp_mlperf::dlio;
use stormlp_show::html::Sheet;

use super::super::deliver::{Forms, ShowArgs, Targets};
use super::super::saved;
use crate::any_report::AnyReport;
use crate::output;

/// Arguments of `stormlp report show`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp report show stormlp-results/gds-matrix-20261121-101502
  stormlp report show after -o page.html           a page with charts
  stormlp report show before after -o both.html    both on one page
  stormlp report show after --baseline before      what changed
  stormlp report show results/training/unet3d/run/20261121_101502
                                                   a run of DLIO")]
pub(super) struct ReportArgs {
    /// Reports or their folders, or a summary.json of DLIO
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,

    #[command(flatten)]
    show: ShowArgs,
}

/// Shows the reports that were named.
///
/// # Errors
/// With exit code 3 or 4 if one cannot be read, or an output not be written.
pub(super) fn show(args: ReportArgs) -> Result<(), Failure> {
    let ReportArgs { paths, show } = args;
    if let [only] = paths.as_slice()
        && let Some(run) = saved::dlio(only)?
    {
        let targets = show.open_other("DLIO's files")?;
        return targets.answer(&run.summary, dlio::document(&run), Sheet::from);
    }
    let reports: Result<Vec<_>, Failure> = paths.iter().map(|path| saved::any(path)).collect();
    let reports = reports?;
    match reports.as_slice() {
        [report] => show.open(report.head().kind)?.write(report),
        _ => several(&reports, &show.open_other("several of them")?),
    }
}

/// Shows several reports at once.
pub(super) fn several(reports: &[AnyReport], targets: &Targets) -> Result<(), Failure> {
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
