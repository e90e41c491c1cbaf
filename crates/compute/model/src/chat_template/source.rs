//! Adaptation of template sources to minijinja, where Jinja2 with transformers' extension reads
//! them differently.

/// Changes three things, and keeps line numbers:
/// - line ends become `\n`;
/// - `generation` and `endgeneration` tags, by which transformers marks the text of the assistant,
///   become `with` and `endwith`: like the originals they are a scope of their own and print their
///   body;
/// - `{% raw %}` becomes `{% raw +%}`, since Jinja2 does not trim the line end behind it.
pub(super) fn adapt(source: &str) -> String {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut result = String::with_capacity(source.len());
    let mut rest = source.as_str();
    while let Some(start) = tag_start(rest) {
        let (text, tag) = rest.split_at(start);
        result.push_str(text);
        let length = tag_length(tag);
        match tag_name(&tag[..length]) {
            // Nothing within a raw block is a tag.
            "raw" => {
                let end = raw_length(tag, length);
                match tag[..length].strip_suffix("%}") {
                    Some(opening) if !opening.ends_with(['-', '+']) => {
                        result.push_str(opening);
                        result.push_str("+%}");
                    }
                    _ => result.push_str(&tag[..length]),
                }
                result.push_str(&tag[length..end]);
                rest = &tag[end..];
                continue;
            }
            "generation" => result.push_str(&tag[..length].replacen("generation", "with", 1)),
            "endgeneration" => {
                result.push_str(&tag[..length].replacen("endgeneration", "endwith", 1))
            }
            _ => result.push_str(&tag[..length]),
        }
        rest = &tag[length..];
    }
    result.push_str(rest);
    result
}

/// Offset of the first tag, expression or comment.
fn tag_start(text: &str) -> Option<usize> {
    let opens = |at: &usize| matches!(text.as_bytes().get(at + 1), Some(b'%' | b'{' | b'#'));
    text.match_indices('{').map(|(at, _)| at).find(opens)
}

/// Length of the tag, expression or comment at the start of `tag`. An end delimiter within a string
/// does not count.
fn tag_length(tag: &str) -> usize {
    let end = match &tag[..2] {
        "{%" => "%}",
        "{{" => "}}",
        _ => return tag.find("#}").map_or(tag.len(), |at| at + 2),
    };
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in tag.char_indices().skip(2) {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(q) if c == q => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None if tag[at..].starts_with(end) => return at + 2,
            None => {}
        }
    }
    tag.len()
}

/// The name of a block tag; empty for expressions and comments.
fn tag_name(tag: &str) -> &str {
    let Some(inside) = tag.strip_prefix("{%") else { return "" };
    let inside = inside.trim_start_matches(['-', '+']).trim_start();
    let end = inside.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(inside.len());
    &inside[..end]
}

/// Length of the raw block, its `endraw` included, whose opening tag has `opening` bytes.
fn raw_length(tag: &str, opening: usize) -> usize {
    let mut at = opening;
    while let Some(found) = tag[at..].find("{%") {
        at += found;
        if tag_name(&tag[at..]) == "endraw" {
            return at + tag_length(&tag[at..]);
        }
        at += 2;
    }
    tag.len()
}
