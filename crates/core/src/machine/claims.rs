//! Reasons not to overwrite a block device.

use serde::{Deserialize, Serialize};

/// The users of a block device, and the signatures on it and on its partitions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceClaims {
    /// Current users, each in words: `vda is mounted at / (ext4)`.
    pub users: Vec<String>,
    /// Signatures found on it.
    pub signatures: Vec<Signature>,
    /// Why it could not be examined completely; `None` if it was.
    pub unexamined: Option<String>,
}

/// The signature of a file system, a partition table, or a member of a larger device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// Its type, as `blkid` names it: `ext4`, `gpt`, `LVM2_member`.
    pub name: String,
    /// The device it was found on, itself or one of its partitions: `sdb1`.
    pub device: String,
}

impl DeviceClaims {
    /// The distinct names of all signatures.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for signature in &self.signatures {
            if !names.contains(&signature.name.as_str()) {
                names.push(&signature.name);
            }
        }
        names
    }

    /// The signatures and their locations: `gpt on sdb, ext4 on sdb1`.
    pub fn words(&self) -> String {
        let words = |signature: &Signature| format!("{} on {}", signature.name, signature.device);
        let all: Vec<String> = self.signatures.iter().map(words).collect();
        all.join(", ")
    }
}
