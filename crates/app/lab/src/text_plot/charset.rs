//! Which characters a terminal shows.

use std::env;

/// Characters that a terminal shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charset {
    /// All of Unicode.
    #[default]
    Unicode,
    /// ASCII alone.
    Ascii,
}

impl Charset {
    /// The charset of the locale in `LC_ALL`, `LC_CTYPE` or `LANG`, the first that is set and not
    /// empty. Without a locale it is Unicode, which is what terminals show today.
    pub fn of_environment() -> Self {
        let value = |name| env::var(name).ok().filter(|value| !value.is_empty());
        Self::of_locale(["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(value).as_deref())
    }

    /// The charset of a locale such as `de_DE.UTF-8`.
    pub fn of_locale(locale: Option<&str>) -> Self {
        let is_unicode = |locale: &str| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        };
        if locale.is_none_or(is_unicode) { Self::Unicode } else { Self::Ascii }
    }

    /// One of two, as the terminal can show it.
    pub fn of<T>(self, unicode: T, ascii: T) -> T {
        match self {
            Self::Unicode => unicode,
            Self::Ascii => ascii,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locales_name_their_charset() {
        for (locale, charset) in [
            (None, Charset::Unicode),
            (Some("C.UTF-8"), Charset::Unicode),
            (Some("de_DE.utf8"), Charset::Unicode),
            (Some("C"), Charset::Ascii),
            (Some("POSIX"), Charset::Ascii),
            (Some("en_US.ISO-8859-1"), Charset::Ascii),
        ] {
            assert_eq!(Charset::of_locale(locale), charset, "{locale:?}");
        }
    }
}
