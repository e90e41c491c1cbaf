//! Kinds of commands, and their arguments.

/// Commands that change nothing but looks.
const ORNAMENTS: [&str; 39] = [
    "big", "Big", "bigg", "Bigg", "bigl", "bigr", "Bigl", "Bigr", "biggl", "biggr", "Biggl",
    "Biggr", "tiny", "small", "large", "Large", "LARGE", "huge", "Huge", "limits", "nolimits",
    "boxed", "fbox", "mathbf", "mathit", "bm", "bf", "it", "pmb", "mathcal", "mathscr", "mathfrak",
    "vec", "hfill", "noindent", "nonumber", "hline", "mathop", "mathord",
];

/// Whether a command changes only the looks.
pub fn is_ornament(name: &str) -> bool {
    ORNAMENTS.contains(&name)
        || matches!(
            name,
            "footnotesize"
                | "normalsize"
                | "displaystyle"
                | "textstyle"
                | "scriptstyle"
                | "mathnormal"
                | "boldsymbol"
                | "underline"
                | "ensuremath"
                | "checkmark"
                | "blacksquare"
        )
}

/// Whether the group after a command is not content but an attribute: a colour, a distance.
pub fn takes_group_away(name: &str) -> bool {
    matches!(
        name,
        "hspace" | "vspace" | "color" | "textcolor" | "tag" | "label" | "phantom" | "hphantom"
    )
}

/// Whether a group of two capital letters comes next.
pub fn names_points(rest: &str) -> bool {
    let content = rest.trim_start().strip_prefix('{').and_then(|rest| rest.split_once('}'));
    content.is_some_and(|(content, _)| {
        let letters = content.bytes().filter(u8::is_ascii_uppercase).count();
        letters == 2
            && content.bytes().all(|byte| byte.is_ascii_uppercase() || matches!(byte, b' ' | b'\''))
    })
}

/// Length of the distance to the next row that may follow the end of one: `[4pt]`.
pub fn row_spacing(after: &str) -> usize {
    let distance = after.strip_prefix('[').and_then(|inner| inner.split_once(']'));
    let is_distance = |text: &str| {
        let unit =
            text.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | ' '));
        unit.len() < text.len()
            && matches!(unit.trim_end(), "pt" | "em" | "ex" | "mm" | "cm" | "in")
    };
    distance.filter(|(text, _)| is_distance(text)).map_or(0, |(text, _)| text.len() + 2)
}
