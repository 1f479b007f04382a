//! Hosts without a launcher: each starts by its own clock, and `stormlp report merge` combines
//! their saved reports.

use stormlp_core::failure::Failure;
use stormlp_core::report::Head;
use stormlp_hosts::company::Company;
use stormlp_hosts::session::Session;
use stormlp_hosts::start_at::StartAt;

use crate::output;

/// Start time of hosts without a launcher.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Several hosts")]
pub(crate) struct DetachedArgs {
    /// Without a launcher: start at this time (UTC), the same on every host: 14:30, 14:30:05,
    /// 2026-11-22T14:30:05Z or seconds since 1970
    #[arg(long, value_name = "TIME", requires = "run_id", conflicts_with = "find_knee")]
    start_at: Option<StartAt>,

    /// ID shared by all hosts' reports, for `stormlp report merge`
    #[arg(long, value_name = "ID", requires = "start_at", value_parser = parse_id)]
    run_id: Option<String>,
}

fn parse_id(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("it is empty".to_string()) } else { Ok(text.to_string()) }
}

impl DetachedArgs {
    /// Rejects times that have passed, and hosts started by a launcher.
    ///
    /// # Errors
    /// With exit code 2.
    pub(crate) fn check(&self, session: &Session) -> Result<(), Failure> {
        self.start_at.map_or(Ok(()), |time| time.check(&session.group))
    }

    /// The company in which this host measures, if no launcher started it with others.
    pub(crate) fn company(&self) -> Company<'static> {
        self.start_at.map_or(Company::Alone, StartAt::company)
    }

    /// Records the run ID and the host's part in the head of a report.
    pub(crate) fn mark(&self, head: &mut Head) {
        if let (Some(time), Some(run_id)) = (self.start_at, &self.run_id) {
            head.part = Some(time.part(run_id, head));
        }
    }

    /// Prints the start time this host waits for.
    pub(crate) fn announce(&self, session: &Session) {
        if let Some(time) = self.start_at.filter(|_| !session.quiet) {
            output::say(format!("the measurement starts at {time}"));
        }
    }
}
