//! Matrices that have names. Each is a line of options of `stormlp gds`, which those that are given
//! replace.

use stormlp_core::printable::printable;

/// A matrix with a name.
pub(super) struct Preset {
    pub(super) name: &'static str,
    /// Its measurements, as the list of presets describes them.
    description: &'static str,
    pub(super) options: &'static str,
}

pub(super) const PRESETS: [Preset; 5] = [
    Preset {
        name: "quick",
        description: "small and large reads on the paths of this machine, in about a minute",
        options: "--path auto --op read,randread --io-size 4K,1M --threads 1,8 --queue-depth 1 \
                  --duration 3s --runs 1",
    },
    // Reading and unpacking samples before training: the CPU is in between.
    Preset {
        name: "data-preparation",
        description: "128K to 512K reads by 1 and 4 threads over cpu-gpu and page-cache",
        options: "--path cpu-gpu,page-cache --op read,randread --io-size 128K,256K,512K \
                  --threads 1,4 --queue-depth 1 --duration 5s --runs 1",
    },
    // Feeding a training loop: large reads, many threads, with and without GPUDirect Storage.
    Preset {
        name: "training",
        description: "1M to 16M reads by 4, 16 and 32 threads over gds and cpu-gpu",
        options: "--path gds,cpu-gpu --op read,randread --io-size 1M,4M,16M --threads 4,16,32 \
                  --queue-depth 1 --duration 5s --runs 1",
    },
    // Loading weights (very large reads) and looking up single entries (4K).
    Preset {
        name: "inference",
        description: "4K and 16M to 128M reads by 1, 4 and 16 threads over gds and cpu-gpu",
        options: "--path gds,cpu-gpu --op read,randread --io-size 4K,16M,64M,128M \
                  --threads 1,4,16 --queue-depth 1 --duration 5s --runs 1",
    },
    // Every combination of the study this matrix follows: 432 cells of 5 s are 36 minutes.
    Preset {
        name: "full",
        description: "all nine sizes from 4K to 128M, 1 to 32 threads, three paths, four operations",
        options: "--path gds,cpu-gpu,page-cache --op read,write,randread,randwrite \
                  --io-size 4K,128K,256K,512K,1M,4M,16M,64M,128M --threads 1,4,16,32 \
                  --queue-depth 1 --duration 5s --runs 1",
    },
];

/// Parses the name of a preset.
pub(super) fn preset_name(name: &str) -> Result<String, String> {
    if PRESETS.iter().any(|preset| preset.name == name) {
        return Ok(name.to_string());
    }
    let line = |one: &Preset| format!("\n  {:<17} {}", one.name, one.description);
    let known: String = PRESETS.iter().map(line).collect();
    Err(format!("`{}` is not a preset: use one of{known}", printable(name)))
}

/// Whether a preset is one of the study with the tables that its report shows.
pub(crate) fn is_of_study(preset: &str) -> bool {
    preset != "quick"
}

/// The names of all presets.
pub fn preset_names() -> Vec<&'static str> {
    PRESETS.iter().map(|preset| preset.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_presets_are_refused_with_those_there_are() {
        let error = preset_name("fast").unwrap_err();
        let listed = error.contains("\n  quick             small and large");
        assert!(error.contains("`fast`") && listed, "{error}");
        assert_eq!(preset_name("full").as_deref(), Ok("full"));
    }
}
