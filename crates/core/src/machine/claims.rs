//! What stands against writing over a block device.

use serde::{Deserialize, Serialize};

/// Who uses a block device, and what lies on it and on its partitions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceClaims {
    /// Who uses it now, each in words: `vda is mounted at / (ext4)`.
    pub users: Vec<String>,
    /// What is on it.
    pub signatures: Vec<Signature>,
    /// Why not all of it could be examined; `None` when it was.
    pub unexamined: Option<String>,
}

/// The mark of a file system, a partition table, or a member of something larger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// What it is the mark of, as `blkid` names it: `ext4`, `gpt`, `LVM2_member`.
    pub name: String,
    /// The device it was found on, one of its partitions or itself: `sdb1`.
    pub device: String,
}

impl DeviceClaims {
    /// The names of all signatures, each once.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for signature in &self.signatures {
            if !names.contains(&signature.name.as_str()) {
                names.push(&signature.name);
            }
        }
        names
    }

    /// The signatures and where they are: `gpt on sdb, ext4 on sdb1`.
    pub fn words(&self) -> String {
        let words = |signature: &Signature| format!("{} on {}", signature.name, signature.device);
        let all: Vec<String> = self.signatures.iter().map(words).collect();
        all.join(", ")
    }
}
