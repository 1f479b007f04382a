//! `stormlp doctor s3://bucket/prefix`: whether the object store answers, and which requests it
//! permits. No object is written.

use std::path::Path;
use std::time::Instant;

use serde::Serialize;
use stormlp_core::evidence::ObjectStore;
use stormlp_core::facts::Availability;
use stormlp_core::failure::Failure;
use stormlp_core::location::ObjectName;
use stormlp_core::shell::shell_word;
use stormlp_core::verify::Verify;
use stormlp_show::document::Document;
use stormlp_transfer::TransferError;
use stormlp_transfer::object::{Client, Get, ObjectError, Session, Settings};

use crate::output::Format;

/// Requests of which the round trip is the median.
const TRIPS: usize = 9;

/// An object store as this user sees it.
#[derive(Debug, Serialize)]
struct Examined {
    /// As typed: `s3://bucket/prefix`.
    location: String,
    /// The endpoint, and the requests of this examination.
    store: ObjectStore,
    /// Whether the objects below the prefix may be listed.
    list: Availability,
    /// Whether there is any.
    has_objects: bool,
    /// Whether the first byte of one can be read; `None` without any that has content.
    read: Option<Availability>,
    /// Unfinished uploads below the prefix; `None` if they may not be listed.
    unfinished_uploads: Option<usize>,
    /// The median time of a list of one key over an open connection, in milliseconds.
    round_trip_ms: Option<f64>,
    /// The same at the other endpoints of the store.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    other_endpoints: Vec<Examined>,
}

/// Examines the store at each of its endpoints and prints the findings. One that does not list the
/// prefix is an error too, after the findings.
pub(super) fn run(location: &Path, format: Format) -> Result<(), Failure> {
    let ObjectName { bucket, key } = ObjectName::of(location).map_err(Failure::usage)?;
    let prefix = match key {
        "" => String::new(),
        key => format!("{}/", key.trim_end_matches('/')),
    };
    let mut all: Vec<(Examined, Option<ObjectError>)> = Vec::new();
    for settings in Settings::of_user()?.of_each_endpoint() {
        let mut session = Client::new(settings, Verify::default())?.session(bucket)?;
        all.push(examined(location, &mut session, &prefix));
    }
    let (mut found, errors): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    // Without an answer there is no fact to show.
    if let Some(first) = found.iter().position(|one| one.store.http.is_some()) {
        let first = found.remove(first);
        format.print(&Examined { other_endpoints: found, ..first }, document)?;
    }
    let failed = errors.into_iter().flatten().next();
    failed.map_or(Ok(()), |error| Err(TransferError::from(error).into()))
}

/// The facts of one endpoint, and why the prefix cannot be listed there.
fn examined(
    location: &Path,
    session: &mut Session,
    prefix: &str,
) -> (Examined, Option<ObjectError>) {
    // Empty objects often stand for folders.
    let any = session.first(prefix, 10);
    let one = any.as_ref().ok().and_then(Option::as_ref).filter(|one| one.facts.bytes > 0);
    let got = one.map(|one| session.get(Get::of(&one.key, 0, &one.facts), &mut [0]));
    let available = |done: Result<(), &ObjectError>| match done {
        Ok(()) => Availability::Available,
        Err(error) => Availability::unavailable(error.to_string(), error.remedy()),
    };
    let round_trip_ms = any.as_ref().ok().and_then(|_| round_trip_ms(session, prefix));
    let answers = session.evidence().http.is_some();
    let uploads = answers.then(|| session.uploads(prefix).ok()).flatten();
    let found = Examined {
        location: location.display().to_string(),
        unfinished_uploads: uploads.map(|all| all.len()),
        store: session.evidence(),
        list: available(any.as_ref().map(drop)),
        has_objects: any.as_ref().is_ok_and(Option::is_some),
        read: got.as_ref().map(|got| available(got.as_ref().map(drop))),
        round_trip_ms,
        other_endpoints: Vec::new(),
    };
    (found, any.err().or(got.and_then(Result::err)))
}

/// The median time of a list of one key, in milliseconds; `None` if none succeeds.
fn round_trip_ms(session: &mut Session, prefix: &str) -> Option<f64> {
    let mut trips_ms = Vec::new();
    for _ in 0..TRIPS {
        let begun = Instant::now();
        if session.first(prefix, 1).is_ok() {
            trips_ms.push(begun.elapsed().as_secs_f64() * 1e3);
        }
    }
    trips_ms.sort_by(f64::total_cmp);
    trips_ms.get(trips_ms.len() / 2).copied()
}

fn trip_words(examined: &Examined) -> Option<String> {
    let ms = examined.round_trip_ms?;
    Some(format!("{ms:.2} ms (median of {TRIPS} lists of one key)"))
}

fn document(examined: &Examined) -> Document {
    let Examined { location, store, list, has_objects, read, .. } = examined;
    let (can, objects) = match (list, read) {
        (Availability::Unavailable { fact, .. }, _) => ("cannot", fact.as_str()),
        (_, Some(Availability::Unavailable { fact, .. })) => ("can", fact.as_str()),
        (_, Some(Availability::Available)) => ("can", "some, and one was read"),
        _ => ("can", if *has_objects { "some, without content" } else { "none" }),
    };
    let mut document = Document::new(format!("{location} {can} be listed"));
    let facts = &mut document.brief;
    let bucket = if store.addressing == "virtual" { "host name" } else { "path" };
    facts.add("endpoint", format!("{}, bucket in the {bucket}", store.endpoint));
    facts.add("server", store.server.as_deref().unwrap_or("unknown"));
    let http = store.http.as_deref().unwrap_or("unknown");
    facts.add("protocol", format!("{http}, {}", store.tls.as_deref().unwrap_or("without TLS")));
    facts.add("objects", objects);
    let uploads = match examined.unfinished_uploads {
        None => "not listed by the endpoint".to_string(),
        Some(0) => "none".to_string(),
        Some(count) => {
            format!("{count}; `stormlp clean {}` aborts stormlp's", shell_word(location))
        }
    };
    facts.add("unfinished uploads", uploads);
    if let Some(trip) = trip_words(examined) {
        facts.add("round trip", trip);
    }
    for other in &examined.other_endpoints {
        let found = match &other.list {
            Availability::Available => trip_words(other).unwrap_or_else(|| "answers".to_string()),
            Availability::Unavailable { fact, .. } => fact.clone(),
        };
        facts.add("another endpoint", format!("{}: {found}", other.store.endpoint));
    }
    facts.add("writing", "not tried: doctor does not write");
    document.warn(&store.retry_warnings("requests").collect::<Vec<_>>());
    document
}
