//! By which route bytes must have gone, and whether the evidence of a run shows that they did.

use serde_json::Value;

/// The route that bytes must have taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// A direct route of cuFile, all of them.
    Direct,
    /// A direct route, at least some of them: the ends of files need not be aligned.
    SomeDirect,
    /// cuFile's POSIX calls: they end in host memory, or this machine has no direct route.
    Compat,
    /// cuFile may choose, and its evidence must say what it chose.
    Either,
}

/// How bytes went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// By the CPU, on a path that is not cuFile's.
    Cpu,
    Direct,
    Compat,
    /// Part direct, part by POSIX calls.
    Mixed,
}

/// The finding from the evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finding {
    /// A route, with its proof.
    Proven(Route, String),
    /// No route, and the missing proof.
    NotProven(String),
}

impl Finding {
    /// The route that a check of `tests/gpu` names in a line; `None` in other lines.
    pub(crate) fn of_check(line: &str) -> Option<Self> {
        let (word, _) = line.strip_prefix("route ")?.split_once(':')?;
        let route = match word {
            "direct" => Route::Direct,
            "compat" => Route::Compat,
            "part direct" => Route::Mixed,
            _ => return Some(Self::NotProven(line.to_string())),
        };
        Some(Self::Proven(route, "evidence of each check".to_string()))
    }
}

/// A path's evidence in reports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim<'a> {
    /// The path that was asked for.
    pub(crate) asked: &'a str,
    pub(crate) evidence: &'a Value,
    /// How many transfers there were, where that is known.
    pub(crate) transfers: Option<u64>,
}

impl Claim<'_> {
    fn ran(&self) -> Option<&str> {
        self.evidence["effective_path"].as_str()
    }

    fn summary(&self) -> &str {
        self.evidence["summary"].as_str().unwrap_or("no evidence")
    }

    /// The operations of all mechanisms; `None` where none was counted.
    fn sum(&self, key: &str) -> Option<u64> {
        let counts = self.evidence["direct_storage"][key].as_object()?;
        counts.values().map(Value::as_u64).sum::<Option<u64>>().filter(|_| !counts.is_empty())
    }

    /// Compares a claim with its evidence and with the requirement.
    ///
    /// # Errors
    /// When they contradict each other.
    pub(crate) fn judge(&self, expected: Expected) -> Result<Finding, String> {
        if !self.asked.starts_with("gds") {
            return self.by_the_cpu();
        }
        let finding = match self.evidence["direct_storage"]["proof"].as_str() {
            Some("counters") => Finding::Proven(self.by_counters()?, "counters".to_string()),
            Some("kernel_driver") => Finding::Proven(self.by_nvidia_fs()?, "nvidia-fs".to_string()),
            Some("fallback_forbidden") => {
                let forbidden = self.evidence["direct_storage"]["fallback_allowed"] == false;
                if !forbidden || self.ran() != Some(self.asked) {
                    return Err(self.contradiction("compatibility mode is reported as forbidden"));
                }
                Finding::Proven(Route::Direct, "fallback_forbidden".to_string())
            }
            Some("elimination") if self.ran() == Some("gds-compat") => {
                Finding::Proven(Route::Compat, "elimination".to_string())
            }
            Some("none") if self.ran().is_none() => {
                let to_prove = self.evidence["direct_storage"]["to_prove"]
                    .as_str()
                    .unwrap_or("it does not say what would prove it");
                Finding::NotProven(format!("{}; to prove it: {to_prove}", self.summary()))
            }
            _ => return Err(self.contradiction("there is no evidence for the named route")),
        };
        let right = match (&finding, expected) {
            (Finding::NotProven(_), _) | (Finding::Proven(..), Expected::Either) => true,
            (Finding::Proven(route, _), Expected::Direct) => *route == Route::Direct,
            (Finding::Proven(route, _), Expected::SomeDirect) => {
                matches!(route, Route::Direct | Route::Mixed)
            }
            (Finding::Proven(route, _), Expected::Compat) => *route == Route::Compat,
        };
        if right {
            Ok(finding)
        } else {
            Err(format!("{expected:?} was expected, but it was {}", self.summary()))
        }
    }

    fn by_the_cpu(&self) -> Result<Finding, String> {
        let by_design = self.asked.ends_with("page-cache") || self.asked == "buffered";
        let opened = if by_design { "not_asked" } else { "honoured" };
        let right =
            self.ran() == Some(self.asked) && self.evidence["direct_io"].as_str() == Some(opened);
        if right {
            Ok(Finding::Proven(Route::Cpu, format!("O_DIRECT {opened}")))
        } else {
            Err(self.contradiction("it did not run as requested"))
        }
    }

    /// The counters of cuFile must be of the named path, and of every transfer if they covered all
    /// of it.
    fn by_counters(&self) -> Result<Route, String> {
        let direct = self.sum("direct_operations").unwrap_or(0);
        let fallback = &self.evidence["direct_storage"]["fallback_operations"];
        let posix = fallback.as_u64().unwrap_or(0);
        let throughout = self.evidence["direct_storage"]["counted"] == "throughout";
        let least = self.transfers.filter(|_| throughout).unwrap_or(1);
        if direct + posix < least {
            let counted = direct + posix;
            return Err(format!("cuFile counted {counted} of {least} transfers"));
        }
        match (self.ran(), direct, posix) {
            (Some(ran), 1.., 0) if ran == self.asked => Ok(Route::Direct),
            (Some("gds-compat"), 0, 1..) => Ok(Route::Compat),
            (None, 1.., 1..) => Ok(Route::Mixed),
            _ => Err(self.contradiction("the counters contradict it")),
        }
    }

    /// The kernel's driver counts every transfer that it sees, those before the cell included.
    fn by_nvidia_fs(&self) -> Result<Route, String> {
        let counted = self.sum("kernel_operations");
        match (self.ran(), counted) {
            (Some(ran), Some(counted))
                if ran == self.asked && counted >= self.transfers.unwrap_or(1).max(1) =>
            {
                Ok(Route::Direct)
            }
            (Some("gds-compat"), Some(0)) => Ok(Route::Compat),
            (None, Some(1..)) => Ok(Route::Mixed),
            _ => Err(self.contradiction("nvidia-fs contradicts it")),
        }
    }

    fn contradiction(&self, what: &str) -> String {
        format!(
            "{what}: {} was requested, {} ran, {}",
            self.asked,
            self.ran().unwrap_or("an unknown path"),
            self.summary()
        )
    }
}

/// Holds a cell of a matrix to its bytes, all of them checked where they were read, and to its
/// route. `bytes_per_thread` is the work of each thread.
///
/// # Errors
/// When it is not right.
pub(crate) fn judge_cell(
    cell: &Value,
    bytes_per_thread: u64,
    expected: Expected,
) -> Result<Finding, String> {
    if cell["status"] != "ok" {
        return Err(cell["reason"].as_str().unwrap_or("no reason").to_string());
    }
    let number = |key: &str| cell[key].as_u64().unwrap_or(0);
    let (bytes, operations) = (number("bytes"), number("operations"));
    let due = bytes_per_thread * number("threads");
    if bytes == 0 || bytes != due || operations * number("io_size_bytes") != bytes {
        return Err(format!(
            "{bytes} bytes in {operations} transfers, but {due} bytes were planned"
        ));
    }
    let checked = &cell["verification"];
    let reads = cell["op"] == "read" || cell["op"] == "randread";
    let is_clean = checked["mismatches"].as_array().is_some_and(Vec::is_empty);
    if reads && (checked["checked_bytes"] != bytes || !is_clean) {
        return Err(format!("of {bytes} bytes were checked: {checked}"));
    }
    if cell["effective_path"] != cell["evidence"]["effective_path"] {
        return Err("the cell and its evidence name different paths".to_string());
    }
    let claim = Claim {
        asked: cell["requested_path"].as_str().unwrap_or_default(),
        evidence: &cell["evidence"],
        transfers: Some(operations),
    };
    claim.judge(expected)
}

/// The sum of many findings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Findings of each route with its proof, and how many.
    proven: Vec<(Route, String, u32)>,
    /// The number without proof, and the first of their reasons.
    unproven: Option<(u32, String)>,
}

impl Tally {
    pub(crate) fn add(&mut self, finding: Finding) {
        match finding {
            Finding::NotProven(why) => match &mut self.unproven {
                Some((count, _)) => *count += 1,
                none => *none = Some((1, why)),
            },
            Finding::Proven(route, proof) => {
                let same = |known: &&mut (Route, String, u32)| known.0 == route && known.1 == proof;
                match self.proven.iter_mut().find(same) {
                    Some((_, _, count)) => *count += 1,
                    None => self.proven.push((route, proof, 1)),
                }
            }
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (route, proof, count) in &other.proven {
            (0..*count).for_each(|_| self.add(Finding::Proven(*route, proof.clone())));
        }
        if let Some((count, why)) = &other.unproven {
            (0..*count).for_each(|_| self.add(Finding::NotProven(why.clone())));
        }
    }

    /// How many are proven.
    pub(crate) fn proven(&self) -> u32 {
        self.proven.iter().map(|(_, _, count)| count).sum()
    }

    /// How many are not, with the first of the reasons.
    pub(crate) fn unproven(&self) -> Option<(u32, &str)> {
        let (count, why) = self.unproven.as_ref()?;
        Some((*count, why))
    }

    /// The proven ones in words.
    pub(crate) fn to_text(&self) -> String {
        let parts: Vec<String> = self
            .proven
            .iter()
            .map(|(route, proof, count)| {
                let route = match route {
                    Route::Cpu => "by the CPU",
                    Route::Direct => "direct",
                    Route::Compat => "in compatibility mode",
                    Route::Mixed => "part direct",
                };
                format!("{count} {route} ({proof})")
            })
            .collect();
        if parts.is_empty() { "none".to_string() } else { parts.join(", ") }
    }
}
