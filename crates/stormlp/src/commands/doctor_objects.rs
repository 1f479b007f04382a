//! `stormlp doctor s3://bucket/prefix`: whether the object store answers, and what it may be asked for.
//! Nothing is written.

use std::path::Path;
use std::time::Instant;

use serde::Serialize;
use stormlp_core::evidence::ObjectStore;
use stormlp_core::facts::Availability;
use stormlp_core::failure::Failure;
use stormlp_core::location::ObjectName;
use stormlp_core::shell::shell_word;
use stormlp_show::document::Document;
use stormlp_transfer::TransferError;
use stormlp_transfer::object::{Client, ObjectRules, Session, Settings};

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
    /// Whether the objects beneath the prefix may be listed.
    list: Availability,
    /// Whether there is any.
    has_objects: bool,
    /// Unfinished uploads beneath the prefix; `None` if they may not be listed.
    unfinished_uploads: Option<usize>,
    /// The median time of a list of one key over an open connection, in milliseconds.
    round_trip_ms: Option<f64>,
}

/// Examines the store and prints the findings. One that does not list the prefix is an error too, after
/// the findings.
pub(super) fn run(location: &Path, format: Format) -> Result<(), Failure> {
    let ObjectName { bucket, key } = ObjectName::of(location).map_err(Failure::usage)?;
    let mut session = Client::new(Settings::of_user()?, ObjectRules::default())?.session(bucket)?;
    let prefix = match key {
        "" => String::new(),
        key => format!("{}/", key.trim_end_matches('/')),
    };
    match session.has_any(&prefix) {
        Ok(has_objects) => {
            let round_trip_ms = round_trip_ms(&mut session, &prefix);
            let found = examined(location, &mut session, &prefix);
            format.print(&Examined { has_objects, round_trip_ms, ..found }, document)
        }
        Err(error) => {
            // One that has not answered has nothing to show.
            if session.evidence().http.is_some() {
                let list = Availability::unavailable(error.to_string(), error.remedy());
                let found = examined(location, &mut session, &prefix);
                format.print(&Examined { list, ..found }, document)?;
            }
            Err(TransferError::from(error).into())
        }
    }
}

/// What is known without the list of objects.
fn examined(location: &Path, session: &mut Session, prefix: &str) -> Examined {
    Examined {
        location: location.display().to_string(),
        unfinished_uploads: session.uploads(prefix).ok().map(|all| all.len()),
        store: session.evidence(),
        list: Availability::Available,
        has_objects: false,
        round_trip_ms: None,
    }
}

/// The median time of a list of one key, in milliseconds; `None` if none succeeds.
fn round_trip_ms(session: &mut Session, prefix: &str) -> Option<f64> {
    let mut trips_ms = Vec::new();
    for _ in 0..TRIPS {
        let begun = Instant::now();
        if session.has_any(prefix).is_ok() {
            trips_ms.push(begun.elapsed().as_secs_f64() * 1e3);
        }
    }
    trips_ms.sort_by(f64::total_cmp);
    trips_ms.get(trips_ms.len() / 2).copied()
}

fn document(examined: &Examined) -> Document {
    let Examined { location, store, list, has_objects, unfinished_uploads, round_trip_ms } =
        examined;
    let unknown = || "unknown".to_string();
    let mut document = Document::new(match list {
        Availability::Available => format!("{location} can be listed"),
        Availability::Unavailable { .. } => format!("{location} cannot be listed"),
    });
    let facts = &mut document.brief;
    facts.add(
        "endpoint",
        format!(
            "{}, bucket in the {}",
            store.endpoint,
            match store.addressing.as_str() {
                "virtual" => "host name",
                _ => "path",
            }
        ),
    );
    facts.add("server", store.server.clone().unwrap_or_else(unknown));
    let tls = store.tls.as_deref().unwrap_or("without TLS");
    facts.add("protocol", format!("{}, {tls}", store.http.clone().unwrap_or_else(unknown)));
    match list {
        Availability::Available => facts.add("objects", if *has_objects { "some" } else { "none" }),
        Availability::Unavailable { fact, .. } => facts.add("objects", fact),
    }
    let uploads = unfinished_uploads.map(|count| match count {
        0 => "none".to_string(),
        count => {
            format!("{count}; `stormlp clean {}` aborts those of stormlp's", shell_word(location))
        }
    });
    facts.add(
        "unfinished uploads",
        uploads.unwrap_or_else(|| "not listed by the endpoint".to_string()),
    );
    if let Some(ms) = round_trip_ms {
        facts.add("round trip", format!("{ms:.2} ms (median of {TRIPS} lists of one key)"));
    }
    facts.add("writing", "not tried: doctor writes nothing");
    document.warn(&store.retry_warnings("requests").collect::<Vec<_>>());
    document
}
