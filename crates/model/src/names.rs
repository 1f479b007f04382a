//! Reading a value by its name, for every closed set that has names on the command line.

/// The one of `all` whose name is `text`; `what` says what each of them is, as in `a path`.
///
/// # Errors
/// When none has that name, with those there are.
pub fn by_name<T: Copy>(
    all: &[T],
    name: impl Fn(T) -> &'static str,
    text: &str,
    what: &str,
) -> Result<T, String> {
    let found = all.iter().copied().find(|one| name(*one) == text);
    found.ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|one| name(*one)).collect();
        let choice = match names.split_last() {
            Some((last, others)) if !others.is_empty() => {
                format!("{} or {last}", others.join(", "))
            }
            _ => names.concat(),
        };
        format!("`{text}` is not {what}: use {choice}")
    })
}

#[cfg(test)]
mod tests {
    use super::by_name;

    #[test]
    fn a_name_is_found_or_all_of_them_are_told() {
        let read = |text| by_name(&["one", "two", "three"], |name| name, text, "a number");
        assert_eq!(read("two"), Ok("two"));
        let error = "`four` is not a number: use one, two or three";
        assert_eq!(read("four"), Err(error.to_string()));
        assert!(read("tw").is_err() && read("").is_err() && read("Two").is_err());
    }
}
