//! Combines the partial reports of a multi-host run: which host and run each belongs to.

use stormlp_core::evidence::Evidence;
use stormlp_core::group::Member;
use stormlp_core::report::{Ending, Head, PartOf};
use stormlp_core::warning::{Warning, WarningKind};

/// Hosts without a launcher are reported if they overlapped for a smaller share of the time.
pub const TOGETHER: f64 = 0.95;

/// The display names of the hosts of `parts`, with process ids if several processes without a
/// launcher ran on one host.
pub fn names(parts: &[&PartOf]) -> Vec<String> {
    let name = |part: &&PartOf| {
        let same = parts.iter().filter(|other| other.host == part.host);
        match same.count() {
            0 | 1 => part.host.clone(),
            _ => format!("{} (process {})", part.host, part.process),
        }
    };
    parts.iter().map(name).collect()
}

/// For each part, whether host-wide figures are to be counted there: processes of one host see the
/// same devices.
pub fn count_hosts_once(hosts: &[(&str, &str)]) -> Vec<bool> {
    let first = |nth: usize| hosts.iter().position(|host| *host == hosts[nth]) == Some(nth);
    (0..hosts.len()).map(first).collect()
}

/// The [same](count_hosts_once) for the processes of a run. Each counts until it has done its own
/// work, so of those of a machine it is the one that `counted` most.
pub fn count_members_once(members: &[Member], counted: impl Fn(usize) -> u64) -> Vec<bool> {
    let most = |nth: usize| {
        let is_same = |other: &usize| members[*other].shares_host_with(&members[nth]);
        let same = (0..members.len()).rev().filter(is_same);
        same.max_by_key(|other| counted(*other)) == Some(nth)
    };
    (0..members.len()).map(most).collect()
}

/// Evidence for all hosts: that of the first host whose path differs from the first one's, so that
/// a fallback on any host is never hidden. Requests to object stores are those of all hosts.
pub fn evidence_of_all<'e>(
    evidence: impl Iterator<Item = &'e Evidence> + Clone,
) -> Option<Evidence> {
    let mut others = evidence.clone();
    let first = others.next()?;
    let other = others.find(|one| one.effective_path != first.effective_path);
    Some(other.unwrap_or(first).clone().with_stores_of(evidence))
}

/// Sorts parts by rank, or by host name.
///
/// # Errors
/// If they are not parts of one run, with a message that names two of them.
pub fn in_order<T>(mut parts: Vec<T>, head: fn(&T) -> &Head) -> Result<Vec<T>, String> {
    let part = |one: &T| head(one).part.clone();
    for one in &parts {
        if part(one).is_none() {
            let (host, began) = (&head(one).host.hostname, &head(one).started_at);
            return Err(format!(
                "the report of {host} that started at {began} is not part of a run on several hosts"
            ));
        }
    }
    let key = |one: &T| {
        let part = part(one);
        part.map(|part| (part.rank, part.host, part.boot_id, part.process))
    };
    parts.sort_by_key(key);
    for pair in parts.windows(2) {
        let [one, other] = pair else { continue };
        let (Some(first), Some(second)) = (part(one), part(other)) else {
            continue;
        };
        if first.run_id != second.run_id {
            return Err(format!(
                "they are parts of two runs: {} of {}, {} of {}",
                first.host, first.run_id, second.host, second.run_id
            ));
        }
        // The same --run-id may have been used on two nights.
        if let (Some(of_one), Some(of_other)) = (&first.start_at, &second.start_at)
            && of_one != of_other
        {
            return Err(format!(
                "they are parts of two runs called {}: {} was to start at {of_one}, {} at {of_other}",
                first.run_id, first.host, second.host
            ));
        }
        if key(one) == key(other) {
            return Err(format!("two of them are the same part, from {}", first.host));
        }
        let (of_one, of_other) = (head(one), head(other));
        if of_one.kind != of_other.kind {
            return Err(format!(
                "{} ran `stormlp {}`, {} `stormlp {}`",
                first.host,
                of_one.kind.name(),
                second.host,
                of_other.kind.name()
            ));
        }
        let versions = [of_one, of_other].map(|head| &head.host.stormlp_version);
        if versions[0] != versions[1] {
            return Err(format!(
                "{} had stormlp {}, {} stormlp {}",
                first.host, versions[0], second.host, versions[1]
            ));
        }
    }
    Ok(parts)
}

/// The combined ending of parts with these `endings`: that of the first part that failed, otherwise
/// of the first that did not complete.
pub fn ending(endings: impl Iterator<Item = Ending> + Clone) -> Ending {
    let failed = |ending: &Ending| matches!(ending, Ending::Failed(_));
    let worst = endings
        .clone()
        .find(failed)
        .or_else(|| endings.clone().find(|ending| *ending != Ending::Complete));
    worst.unwrap_or(Ending::Complete)
}

/// The share of the longest of `times`, 0 to 1, during which all of them were running. Each is a
/// start by the host's clock and a duration, in seconds; `None` if none took any time.
pub fn share_at_once(times: &[(f64, f64)]) -> Option<f64> {
    let began = times.iter().map(|time| time.0).fold(f64::MIN, f64::max);
    let ended = times.iter().map(|time| time.0 + time.1).fold(f64::MAX, f64::min);
    let longest = times.iter().map(|time| time.1).fold(0.0, f64::max);
    (longest > 0.0).then(|| ((ended - began) / longest).clamp(0.0, 1.0))
}

/// Reports, for hosts started independently, the share of `each` of their units during which all
/// were running: `least` in `which`. If it is low, `advice` says what helps.
pub fn began_by_clocks(each: &str, (least, which): (f64, &str), advice: &str) -> Warning {
    let mut fact = format!(
        "these hosts started by their own clocks (--start-at), whose offsets were not measured: by those \
         clocks they measured each {each} at the same time "
    );
    let advice = if least < TOGETHER {
        advice
    } else {
        "synchronise the clocks (NTP), or start the hosts with a launcher"
    };
    fact.push_str(&if least < TOGETHER { format!(
            "for {:.0} % of its time or more, the least in {which}: the sum of their rates there mixes \
             different times",
            least * 100.0
        ) } else { format!("for {:.1} % of its time or more", least * 100.0) });
    Warning::new(WarningKind::Hosts, fact, advice)
}

/// The ranks without a part.
pub fn missing<'h>(parts: impl Iterator<Item = &'h Head> + Clone) -> Vec<u32> {
    let known = parts.filter_map(|head| head.part.as_ref());
    let size = known.clone().filter_map(|part| part.size).max();
    let has = |rank: &u32| known.clone().any(|part| part.rank == Some(*rank));
    (0..size.unwrap_or(0)).filter(|rank| !has(rank)).collect()
}

/// The run and hosts of parts started without a launcher, which do not know their total number;
/// `None` for other parts.
pub fn detached<'h>(parts: impl Iterator<Item = &'h Head>) -> Option<(String, Vec<String>)> {
    let known: Option<Vec<&PartOf>> = parts.map(|head| head.part.as_ref()).collect();
    let known = known?;
    let first = known.first().filter(|part| part.size.is_none())?;
    Some((first.run_id.clone(), names(&known)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stormlp_core::facts::HostFacts;
    use stormlp_core::report::ReportKind;

    fn head(run_id: &str, host: &str, rank: Option<u32>) -> Head {
        let facts = HostFacts::fixture();
        let mut head = Head::new(ReportKind::Gds, String::new(), String::new(), facts);
        head.part = Some(PartOf {
            run_id: run_id.to_string(),
            host: host.to_string(),
            boot_id: "boot".to_string(),
            process: 1,
            rank,
            size: rank.map(|_| 3),
            start_at: None,
        });
        head
    }

    #[test]
    fn parts_of_one_run_are_put_in_order() {
        let parts = vec![head("r", "b", Some(2)), head("r", "c", Some(0))];
        let parts = in_order(parts, |head| head).unwrap();
        assert_eq!(parts[0].part.as_ref().unwrap().host, "c");
        assert_eq!(missing(parts.iter()), [1]);
        assert_eq!(detached(parts.iter()), None);
        let alone = [head("night", "h", None)];
        let told = detached(alone.iter()).unwrap();
        assert_eq!(told, ("night".to_string(), vec!["h".to_string()]));
    }

    #[test]
    fn parts_of_different_runs_are_refused() {
        let whole = Head { part: None, ..head("r", "a", None) };
        let cases = [
            (whole, "is not part of a run"),
            (head("other", "b", None), "two runs"),
            (head("r", "a", None), "the same part, from a"),
        ];
        for (other, told) in cases {
            let error = in_order(vec![head("r", "a", None), other], |head| head).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn runs_of_one_name_that_began_at_other_times_are_two() {
        let at = |host: &str, start_at: &str| {
            let mut head = head("night", host, None);
            head.part.as_mut().unwrap().start_at = Some(start_at.to_string());
            head
        };
        let (monday, tuesday) = ("2026-01-05T22:00:00Z", "2026-01-06T22:00:00Z");
        for host in ["a", "b"] {
            let parts = vec![at("a", monday), at(host, tuesday)];
            let error = in_order(parts, |head| head).unwrap_err();
            let told = "two runs called night: a was to start at 2026-01-05T22:00:00Z, ";
            assert!(error.contains(told) && error.contains(tuesday), "{error}");
        }
        assert!(in_order(vec![at("a", monday), at("b", monday)], |head| head).is_ok());
    }

    #[test]
    fn hosts_overlap_from_the_last_start_to_the_first_end() {
        let share = |times: &[(f64, f64)]| share_at_once(times).unwrap();
        assert_eq!(share(&[(100.0, 4.0), (101.0, 4.0)]), 0.75);
        assert_eq!(share(&[(100.0, 4.0), (101.0, 2.0)]), 0.5, "of the longest");
        assert_eq!(share(&[(100.0, 1.0), (105.0, 1.0)]), 0.0);
        assert_eq!(share(&[(100.0, 1.0)]), 1.0);
        assert_eq!(share_at_once(&[]), None);
        let told = |least| began_by_clocks("save", (least, "save 2"), "have fewer");
        assert!(told(0.99).fact.ends_with("for 99.0 % of its time or more"));
        assert!(told(0.5).fact.contains("the least in save 2"));
        assert_eq!(told(0.5).remedy, "have fewer");
    }

    #[test]
    fn a_whole_ends_as_its_worst_part() {
        let endings = [Ending::Complete, Ending::Stopped, Ending::Unfinished];
        assert_eq!(ending(endings.iter().cloned()), Ending::Stopped);
        assert_eq!(ending(endings[..1].iter().cloned()), Ending::Complete);
    }

    #[test]
    fn of_the_processes_of_a_machine_the_one_that_counted_most_counts() {
        let hosts = ["a", "a", "b", "b", "c"];
        let members: Vec<_> =
            hosts.iter().zip(0..).map(|(host, nth)| Member::fixture(nth, host)).collect();
        let counted = [700, 1006, 5, 5, 0];
        let once = count_members_once(&members, |nth| counted[nth]);
        assert_eq!(once, [false, true, true, false, true]);
    }

    #[test]
    fn a_host_is_counted_once() {
        let hosts = [("a", "1"), ("a", "1"), ("b", "2"), ("a", "3")];
        assert_eq!(count_hosts_once(&hosts), [true, false, true, true]);
    }
}
