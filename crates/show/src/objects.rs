//! Object stores: facts of their evidence shown with the figures.

use stormlp_core::evidence::{ObjectChecksums, ObjectStore};
use stormlp_core::units::{ByteSize, counted};

/// The result of checksums, of all `stores`; `None` unless requested.
pub fn verified<'s>(stores: impl IntoIterator<Item = &'s ObjectStore>) -> Option<String> {
    let found = stores.into_iter().filter_map(|store| store.checksums);
    found.reduce(ObjectChecksums::plus).map(ObjectChecksums::to_text)
}

/// The requests to a store, and their traffic.
pub fn requests(store: &ObjectStore) -> String {
    let lost = match store.retries_after_loss {
        0 => String::new(),
        lost => format!(" ({lost} after lost connections)"),
    };
    format!(
        "{} over {}, {} retries{lost}; {} sent, {} received",
        counted(store.requests, "request"),
        counted(store.connections, "connection"),
        store.retries,
        ByteSize(store.sent_bytes),
        ByteSize(store.received_bytes)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_retries_are_told_apart() {
        let store = |retries, retries_after_loss| ObjectStore {
            requests: 10,
            connections: 1,
            sent_bytes: 2048,
            retries,
            retries_after_loss,
            ..ObjectStore::default()
        };
        let told = requests(&store(0, 0));
        assert_eq!(told, "10 requests over 1 connection, 0 retries; 2 KiB sent, 0 B received");
        for (retries, lost, expected) in
            [(1, 0, "connection, 1 retries;"), (3, 1, "3 retries (1 after lost connections);")]
        {
            let told = requests(&store(retries, lost));
            assert!(told.contains(expected), "{told}");
        }
    }

    #[test]
    fn a_run_that_verified_nothing_says_so() {
        let store = |checksums| ObjectStore { checksums, ..ObjectStore::default() };
        assert_eq!(verified([&store(None)]), None);
        let nothing = ObjectChecksums { responses_unverified: 3, ..ObjectChecksums::default() };
        let told = verified([&store(Some(nothing)), &store(None)]).unwrap();
        assert_eq!(told, "nothing; 3 replies had no checksum");
        let some = ObjectChecksums { checked_bytes: 1 << 20, ..ObjectChecksums::default() };
        let told = verified([&store(Some(nothing)), &store(Some(some))]).unwrap();
        assert_eq!(told, "1 MiB by checksum; 3 replies had no checksum");
    }
}
