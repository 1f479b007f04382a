//! The operations of storage on the objects of a bucket: a small file is one object.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use stormlp_core::evidence::ObjectStore;
use stormlp_core::facts::Identity;
use stormlp_core::location::ObjectName;
use stormlp_core::stop::StopToken;
use stormlp_core::verify::Verify;
use stormlp_core::warning::Warning;

use super::disk::TEXT_BYTES;
use super::found::{Entry, Facts, Kind, RecordedState};
use super::handle::Access;
use super::handle::{Handle, ObjectMode, OpenObject, PUTS};
use crate::error::TransferError;
use crate::object::{Client, Get, ObjectFacts, Pending, Session, SessionPool, Settings, Upload};
use crate::thread_group::{self, Start};

/// Requests for marks at the same time.
const ASKING_THREADS: usize = 8;

/// The user's object store.
pub struct Buckets {
    sessions: Arc<SessionPool>,
    /// Whether the endpoints were found to be of one store.
    is_one: AtomicBool,
}

impl Buckets {
    /// The object store that the environment names, with objects verified as `verify` says.
    pub(super) fn of_user(verify: Verify) -> Result<Self, TransferError> {
        Ok(Self::of(Client::new(Settings::of_user()?, verify)?))
    }

    pub(super) fn of(client: Arc<Client>) -> Self {
        Self { sessions: SessionPool::of(client), is_one: AtomicBool::new(false) }
    }

    /// Does something with the object or prefix at `path`.
    fn within<T>(
        &self,
        path: &Path,
        act: impl FnOnce(&mut Session, &str) -> Result<T, TransferError>,
    ) -> Result<T, TransferError> {
        let ObjectName { bucket, key } = named(path)?;
        self.sessions.within(bucket, |session| act(session, key))
    }

    /// Refuses endpoints of separate stores, once: each must have the object at `path`.
    fn check_endpoints(&self, path: &Path) -> Result<(), TransferError> {
        let all = self.sessions.client().settings().clone().of_each_endpoint();
        if all.len() < 2 || self.is_one.load(Ordering::Relaxed) {
            return Ok(());
        }
        let ObjectName { bucket, key } = named(path)?;
        let mut seen = Vec::new();
        for settings in all {
            let mut session = Client::new(settings, Verify::default())?.session(bucket)?;
            let found = session.head(key)?;
            seen.push((session.evidence().endpoint, found));
        }
        if let Some((other, _)) = seen.iter().find(|(_, found)| *found != seen[0].1) {
            let (what, one) = (path.display().to_string(), &seen[0].0);
            let reason =
                format!("{one} and {other} do not have the same: they are separate stores");
            let remedy = "name endpoints of one store, or measure one store at a time".to_string();
            return Err(TransferError::Unavailable { what, reason, remedy });
        }
        self.is_one.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The warnings if requests other than transfers were retried.
    pub(super) fn warnings(&self) -> Vec<Warning> {
        let store = self.sessions.evidence();
        let retried =
            |store: ObjectStore| store.retry_warnings("requests outside the measured transfers");
        store.into_iter().flat_map(retried).collect()
    }

    pub(super) fn look(&self, path: &Path) -> Result<Option<Facts>, TransferError> {
        self.within(path, |session, key| Ok(session.head(key)?.as_ref().map(facts)))
    }

    /// The objects and folders directly below a prefix.
    pub(super) fn list(&self, prefix: &Path) -> Result<Vec<Entry>, TransferError> {
        let entries = self.within(prefix, |session, key| {
            let folder = beneath(key);
            let named = |key: &str, facts| {
                let name = key.strip_prefix(&folder).unwrap_or(key).trim_end_matches('/');
                Entry { name: OsString::from(name), facts }
            };
            let (objects, folders) = session.list_folder(&folder)?;
            let objects = objects.iter().map(|one| named(&one.key, facts(&one.facts)));
            let folders = folders.iter().map(|key| named(key, Facts::of(Kind::Folder)));
            // Some tools put an empty object where a folder is to be.
            let mut entries: Vec<Entry> =
                objects.chain(folders).filter(|entry| !entry.name.is_empty()).collect();
            entries.sort_by(|one, other| one.name.cmp(&other.name));
            Ok(entries)
        })?;
        let object = entries.iter().find(|entry| entry.is_file());
        object.map_or(Ok(()), |one| self.check_endpoints(&prefix.join(&one.name)))?;
        Ok(entries)
    }

    /// Whether there is any object below a prefix.
    pub(super) fn has_any(&self, prefix: &Path) -> Result<bool, TransferError> {
        self.within(prefix, |session, key| Ok(session.first(&beneath(key), 1)?.is_some()))
    }

    /// The object at `path`, known to have `bytes`.
    pub(super) fn known(&self, path: &Path, bytes: u64) -> Result<Handle, TransferError> {
        self.object(path, ObjectMode::Read(ObjectFacts::of_size(bytes)))
    }

    /// Reads an open object; 0 bytes at its end.
    pub(super) fn read_at(
        &self,
        object: &OpenObject,
        path: &Path,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, TransferError> {
        let ObjectMode::Read(of) = &object.mode else {
            let source = io::Error::from(io::ErrorKind::Unsupported);
            return Err(TransferError::file("read", path, source));
        };
        let wanted = of.bytes.saturating_sub(offset).min(buffer.len() as u64) as usize;
        if wanted > 0 {
            self.within(path, |session, key| {
                session.get(Get::of(key, offset, of), &mut buffer[..wanted])?;
                Ok(())
            })?;
        }
        Ok(wanted)
    }

    /// Aborts the uploads below a prefix of the objects that are `ours`.
    pub(super) fn abort_uploads(
        &self,
        prefix: &Path,
        ours: &dyn Fn(&Path) -> bool,
        dry_run: bool,
    ) -> Result<u64, TransferError> {
        self.within(prefix, |session, key| {
            let folder = beneath(key);
            let mut aborted = 0;
            for Pending { key, id } in session.uploads(&folder)? {
                let name = key.strip_prefix(&folder).unwrap_or(&key);
                if !ours(&prefix.join(name)) {
                    continue;
                }
                if !dry_run {
                    session.abort(&key, &id)?;
                }
                aborted += 1;
            }
            Ok(aborted)
        })
    }

    pub(super) fn handle(&self, path: &Path, access: Access) -> Result<Handle, TransferError> {
        let mode = match access {
            Access::ReadWrite => ObjectMode::Puts,
            Access::Create => {
                let ObjectName { bucket, key } = named(path)?;
                ObjectMode::Upload(Arc::new(Upload::of(&self.sessions, bucket, key)))
            }
            Access::Read => {
                let found = self.within(path, |session, key| Ok(session.head(key)?))?;
                ObjectMode::Read(found.ok_or_else(|| {
                    let nothing = io::Error::from_raw_os_error(libc::ENOENT);
                    TransferError::file("open", path, nothing)
                })?)
            }
        };
        self.object(path, mode)
    }

    fn object(&self, path: &Path, mode: ObjectMode) -> Result<Handle, TransferError> {
        let ObjectName { bucket, key } = named(path)?;
        let client = Arc::clone(self.sessions.client());
        let (bucket, key) = (bucket.into(), key.into());
        Ok(Handle::Object(OpenObject { client, bucket, key, mode }))
    }

    pub(super) fn read_text(&self, path: &Path) -> Result<Option<String>, TransferError> {
        let wrong = |what: String| TransferError::refused("read", path, what);
        let content = self.within(path, |session, key| {
            let Some(found) = session.head(key)? else {
                return Ok(None);
            };
            if found.bytes > TEXT_BYTES {
                return Err(wrong(format!("{} bytes are too many for a text", found.bytes)));
            }
            let mut content = vec![0; found.bytes as usize];
            if !content.is_empty() {
                session.get(Get::of(key, 0, &found), &mut content)?;
            }
            Ok(Some(content))
        })?;
        content.map(String::from_utf8).transpose().map_err(|error| wrong(error.to_string()))
    }

    pub(super) fn write(&self, path: &Path, content: &[u8]) -> Result<(), TransferError> {
        self.within(path, |session, key| {
            session.put(key, content)?;
            Ok(())
        })?;
        self.check_endpoints(path).inspect_err(|error| {
            // A list would have found an older one.
            if matches!(error, TransferError::Unavailable { .. }) {
                let _ = self.remove(path);
            }
        })
    }

    /// Removes an object; `false` if there was none.
    pub(super) fn remove(&self, path: &Path) -> Result<bool, TransferError> {
        self.within(path, |session, key| {
            let found = session.head(key)?.is_some();
            if found {
                session.delete(&[key.to_string()])?;
            }
            Ok(found)
        })
    }

    /// Removes objects that are there, a thousand a request.
    pub(super) fn remove_all(&self, paths: &[PathBuf]) -> Result<u64, TransferError> {
        let bucket = |path: &Path| named(path).map(|name| name.bucket.to_string()).ok();
        for of_one in paths.chunk_by(|one, other| bucket(one) == bucket(other)) {
            let keys: Result<Vec<String>, TransferError> =
                of_one.iter().map(|path| Ok(named(path)?.key.to_string())).collect();
            self.within(&of_one[0], |session, _| Ok(session.delete(&keys?)?))?;
        }
        Ok(paths.len() as u64)
    }

    pub(super) fn is_marked(&self, path: &Path) -> Result<bool, TransferError> {
        self.within(path, |session, key| Ok(session.is_marked(key)?))
    }

    /// The objects that writes put for the one at `path`. Marks need a request for each, so several
    /// threads ask.
    pub(super) fn puts(&self, path: &Path) -> Result<Vec<(PathBuf, RecordedState)>, TransferError> {
        let folder = PathBuf::from(format!("{}{}", path.display(), PUTS.trim_end_matches('/')));
        let is_number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
        let mut listed = self.list(&folder)?;
        listed.retain(|entry| entry.is_file() && entry.text().is_some_and(is_number));
        let look = |entry: &Entry| {
            let path = folder.join(&entry.name);
            Ok(match self.is_marked(&path)? {
                true => (path, RecordedState::Same(entry.facts)),
                false => {
                    (path, RecordedState::Other("an object without stormlp's mark".to_string()))
                }
            })
        };
        let share = listed.len().div_ceil(ASKING_THREADS).max(1);
        let ask = |some: &[Entry], _: &mut Start<'_>| -> Result<Vec<_>, TransferError> {
            some.iter().map(look).collect()
        };
        let failed = StopToken::new();
        let (asked, ()) = thread_group::run("marks", listed.chunks(share), &failed, ask, |_| ())?;
        Ok(asked.into_iter().collect::<Result<Vec<_>, _>>()?.concat())
    }
}

/// The object that a path names.
fn named(path: &Path) -> Result<ObjectName<'_>, TransferError> {
    ObjectName::of(path).map_err(|reason| TransferError::Unavailable {
        what: path.display().to_string(),
        reason,
        remedy: "name it as s3://bucket/prefix".to_string(),
    })
}

/// The beginning of the keys of a prefix's objects.
fn beneath(key: &str) -> String {
    match key.is_empty() || key.ends_with('/') {
        true => key.to_string(),
        false => format!("{key}/"),
    }
}

fn facts(of: &ObjectFacts) -> Facts {
    let identity =
        Identity { inode: digest(of.etag.as_deref().unwrap_or_default()), born_ns: None };
    Facts { bytes: of.bytes, allocated_bytes: of.bytes, identity, ..Facts::of(Kind::File) }
}

/// FNV-1a: the same for the same ETag on every machine and in every version.
fn digest(etag: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    // Some endpoints list ETags without their quotes.
    etag.trim_matches('"').bytes().fold(0xcbf2_9ce4_8422_2325, step)
}
