//! The locations of a dataset's files: DLIO's names, zero-padding and subfolders.
//!
//! `{train|valid}/[{subfolder}/]{prefix}_{index}_of_{files}.{suffix}`, for example
//! `train/img_000_of_168.npz`.

/// The two splits of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Split {
    /// Training samples.
    Train,
    /// Evaluation samples.
    Valid,
}

impl Split {
    /// The folder name.
    #[must_use]
    pub fn folder(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Valid => "valid",
        }
    }
}

/// The naming of one split of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Naming {
    /// The split.
    pub split: Split,
    /// `file_prefix`; `img` by default.
    pub prefix: String,
    /// The suffix without its dot.
    pub suffix: &'static str,
    /// Number of files in this split.
    pub files: u64,
    /// Number of subfolders; 0 or 1 for none.
    pub subfolders: u64,
}

impl Naming {
    /// The folders that must exist, relative to the dataset folder.
    #[must_use]
    pub fn folders(&self) -> Vec<String> {
        let base = self.split.folder();
        let mut folders = vec![base.to_string()];
        if self.subfolders > 1 {
            folders
                .extend((0..self.subfolders).map(|sub| format!("{base}/{}", self.subfolder(sub))));
        }
        folders
    }

    /// The path of file `index`, relative to the dataset folder.
    #[must_use]
    pub fn path(&self, index: u64) -> String {
        let base = self.split.folder();
        let name = self.file_name(index);
        if self.subfolders > 1 {
            let sub = self.subfolder(index % self.subfolders);
            format!("{base}/{sub}/{name}")
        } else {
            format!("{base}/{name}")
        }
    }

    /// The name of file `index` without folders.
    #[must_use]
    pub fn file_name(&self, index: u64) -> String {
        let width = digits(self.files);
        format!("{}_{index:0width$}_of_{}.{}", self.prefix, self.files, self.suffix)
    }

    fn subfolder(&self, sub: u64) -> String {
        let width = digits(self.subfolders);
        format!("{sub:0width$}")
    }
}

/// Python's `len(str(number))`.
pub(crate) fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

#[cfg(test)]
mod tests {
    use super::{Naming, Split};

    fn naming(files: u64, subfolders: u64) -> Naming {
        Naming { split: Split::Train, prefix: "img".into(), suffix: "npz", files, subfolders }
    }

    #[test]
    fn names_are_padded_to_the_number_of_files() {
        assert_eq!(naming(168, 0).path(0), "train/img_000_of_168.npz");
        assert_eq!(naming(100, 1).path(99), "train/img_099_of_100.npz");
        assert_eq!(naming(9, 0).path(8), "train/img_8_of_9.npz");
    }

    #[test]
    fn subfolders_take_files_in_turn() {
        assert_eq!(naming(24, 10).path(13), "train/03/img_13_of_24.npz");
        assert_eq!(naming(24, 4).path(13), "train/1/img_13_of_24.npz");
        assert_eq!(naming(24, 2).folders(), ["train", "train/0", "train/1"]);
        assert_eq!(naming(24, 1).folders(), ["train"]);
    }
}
