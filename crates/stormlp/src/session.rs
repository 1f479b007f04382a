//! What every command is given besides its arguments: the stop token, the clock's date and where
//! progress goes.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use stormlp_model::facts::HostFacts;
use stormlp_model::stop::StopToken;
use stormlp_transfer::probe;

use crate::exit::Failure;
use crate::progress::Progress;

/// The surroundings of one run of the program.
#[allow(dead_code)] // `stop` waits for the first command that runs long enough.
#[derive(Debug)]
pub(crate) struct Session {
    /// Pulled by SIGINT and SIGTERM.
    pub(crate) stop: StopToken,
    /// Whether progress is unwanted.
    pub(crate) quiet: bool,
    started_at: SystemTime,
}

#[allow(dead_code)] // Only the commands that save reports need the command line and the date.
impl Session {
    /// The surroundings of a program that started now.
    pub(crate) fn new(stop: StopToken, quiet: bool) -> Self {
        Self {
            stop,
            quiet,
            started_at: SystemTime::now(),
        }
    }

    /// An observer that draws progress on stderr.
    pub(crate) fn progress(&self) -> Progress {
        Progress::new(self.quiet)
    }

    /// This machine with its GPU libraries, which are tried in `directory` where one is given.
    ///
    /// # Errors
    /// When the path of this executable cannot be told.
    pub(crate) fn host_facts(&self, directory: Option<&Path>) -> Result<HostFacts, Failure> {
        Ok(probe::host_facts_with_libraries(
            &self.executable()?,
            directory,
        ))
    }

    /// This executable, for starting it again as the child that opens libraries.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub(crate) fn executable(&self) -> Result<PathBuf, Failure> {
        std::env::current_exe()
            .context(
                "cannot tell where this executable lies, which is started again to open libraries",
            )
            .map_err(Failure::machine)
    }

    /// The command line as it was typed, quoted for a shell where that is needed.
    pub(crate) fn command_line(&self) -> String {
        let words: Vec<String> = std::env::args().map(|word| shell_word(&word)).collect();
        words.join(" ")
    }

    /// When the program started, RFC 3339 in UTC: `2026-11-21T07:25:00Z`.
    pub(crate) fn started_at(&self) -> String {
        let (date, time) = self.date_and_time();
        format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
            date[0], date[1], date[2], time[0], time[1], time[2]
        )
    }

    /// The same moment for names of folders: `20261121-072500`.
    pub(crate) fn file_stamp(&self) -> String {
        let (date, time) = self.date_and_time();
        format!(
            "{:04}{:02}{:02}-{:02}{:02}{:02}",
            date[0], date[1], date[2], time[0], time[1], time[2]
        )
    }

    fn date_and_time(&self) -> ([u64; 3], [u64; 3]) {
        let seconds = self
            .started_at
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        civil(seconds)
    }
}

/// Year, month, day and hour, minute, second of a Unix time.
///
/// The date is Howard Hinnant's `civil_from_days`: years begin in March, so that the leap day is
/// the last of its year and months have lengths that a linear formula gives.
fn civil(unix_seconds: u64) -> ([u64; 3], [u64; 3]) {
    let (days, second) = (unix_seconds / 86_400 + 719_468, unix_seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (
        [year, month, day],
        [second / 3_600, second / 60 % 60, second % 60],
    )
}

/// `word` as a shell would need it.
fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::{civil, shell_word};

    #[test]
    fn dates_are_right_around_leap_days() {
        assert_eq!(civil(0), ([1970, 1, 1], [0, 0, 0]));
        assert_eq!(civil(951_782_399), ([2000, 2, 28], [23, 59, 59]));
        assert_eq!(civil(951_782_400), ([2000, 2, 29], [0, 0, 0]));
        assert_eq!(civil(1_709_251_200), ([2024, 3, 1], [0, 0, 0]));
        assert_eq!(civil(4_107_542_400), ([2100, 3, 1], [0, 0, 0]));
        assert_eq!(civil(1_798_761_599), ([2026, 12, 31], [23, 59, 59]));
    }

    #[test]
    fn a_command_line_can_be_pasted_into_a_shell() {
        assert_eq!(shell_word("--io-size=1M"), "--io-size=1M");
        assert_eq!(shell_word("my data"), "'my data'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
    }
}
