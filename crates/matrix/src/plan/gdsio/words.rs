//! Rewords advice of `stormlp gds` for gdsio's command line, which lacks its options.

/// Replacements; where one phrase contains another, the longer comes first.
const PHRASES: [(&str, &str); 17] = [
    ("use --duration 1x, or a larger", "leave -T out, or use a larger"),
    ("use more passes (--duration 2x), or a larger", "use a larger"),
    ("--tune regenerate", "-F"),
    ("--op write --verify --duration 1x", "-I 1 -V without -T"),
    ("one of --verify and --read-percent", "one of -V and -M"),
    ("--path buffered", "-x 1 -O 1"),
    ("--path cpu", "-x 1"),
    ("the paths buffered and page-cache", "-x 1 -O 1"),
    ("--buffer-memory host", "-m 3"),
    ("--device host", "--emulate"),
    ("--tune seed=", "-k "),
    ("--tune seed", "-k"),
    ("--tune register=no", "-b"),
    ("or offset, or", "or -o, or"),
    ("add --path gds", "use -x 0"),
    ("--dir or --file", "-D or -f"),
    ("--dir for a folder", "-D for a folder"),
];

/// Options with a gdsio letter.
const LETTERS: [(&str, &str); 13] = [
    ("--path", "-x"),
    ("--op", "-I"),
    ("--io-size", "-i"),
    ("--file-size", "-s"),
    ("--threads", "-w"),
    ("--queue-depth", "-B"),
    ("--duration", "-T"),
    ("--dir", "-D"),
    ("--file", "-f"),
    ("--device", "-d"),
    ("--buffer-memory", "-m"),
    ("--verify", "-V"),
    ("--read-percent", "-M"),
];

/// Options that `stormlp gdsio` accepts under the same name.
const SHARED: [&str; 2] = ["--emulate", "--destroy-data"];

/// A message or advice reworded for a gdsio user. Complete commands stay unchanged, and an option
/// without a gdsio letter is attributed to `stormlp gds`.
pub fn in_gdsios_words(text: &str) -> String {
    let pieces: Vec<String> = text
        .split('`')
        .enumerate()
        .map(|(index, piece)| match (index % 2 == 1, piece.starts_with("--")) {
            (true, false) => piece.to_string(),
            (true, true) => reworded(piece, "stormlp gds "),
            (false, _) => reworded(piece, "`stormlp gds` with "),
        })
        .collect();
    pieces.join("`")
}

/// Rewords part of a text; `elsewhere` is put before an option without a gdsio equivalent.
fn reworded(text: &str, elsewhere: &str) -> String {
    let mut text = text.to_string();
    for (ours, theirs) in PHRASES {
        text = text.replace(ours, theirs);
    }
    let mut message = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find("--") {
        let end = rest[at + 2..]
            .find(|c: char| !c.is_ascii_lowercase() && c != '-')
            .map_or(rest.len(), |length| at + 2 + length);
        let (before, option) = (&rest[..at], &rest[at..end]);
        message.push_str(before);
        let letter = LETTERS.iter().find(|(ours, _)| *ours == option);
        match letter {
            Some((_, letter)) => message.push_str(letter),
            None if SHARED.contains(&option) || option.len() < 4 => message.push_str(option),
            None => {
                message.push_str(elsewhere);
                message.push_str(option);
            }
        }
        rest = &rest[end..];
    }
    message.push_str(rest);
    message
}

#[cfg(test)]
mod tests {
    use super::in_gdsios_words;

    #[test]
    fn options_become_letters_and_commands_stay() {
        for (ours, theirs) in [
            ("use --duration 1x, or a larger --file-size", "leave -T out, or use a larger -s"),
            (
                "use a smaller --file-size or offset, or a larger file",
                "use a smaller -s or -o, or a larger file",
            ),
            ("add --destroy-data=ext4 if", "add --destroy-data=ext4 if"),
            (
                "`stormlp gds --fsync end` includes the time of storage",
                "`stormlp gds --fsync end` includes the time of storage",
            ),
            ("use a longer --warmup; a", "use a longer `stormlp gds` with --warmup; a"),
            ("use `--engine psync`, or", "use `stormlp gds --engine psync`, or"),
            ("use `--file` there", "use `-f` there"),
            ("a -- b", "a -- b"),
        ] {
            assert_eq!(in_gdsios_words(ours), theirs);
        }
    }
}
