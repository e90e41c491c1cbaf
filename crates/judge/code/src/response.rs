//! The program in a response of a chat model.

/// Tags of fenced blocks of Python, which a version may follow.
const PYTHON: [&str; 2] = ["python", "py"];

/// Beginnings of a program's first line that are not taken for prose.
const BEGINNINGS: [&str; 8] = [" ", "\t", "def ", "async def ", "class ", "import ", "from ", "@"];

/// The beginning of an interactive session, which is no program.
const SESSION: &str = ">>>";

/// Shortest fence.
const SHORTEST: usize = 3;

/// Most columns by which a closing fence may be indented more than the opening one (CommonMark,
/// section 4.5). A fence further to the right, as in a docstring, belongs to the program.
const MARGIN: usize = 3;

/// The end of a reasoning model's thoughts, whose drafts are no answer.
const END_OF_THOUGHTS: &str = "</think>";

/// A program found in a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its text.
    pub text: String,
    /// Whether the program stood in a code block. If not, it is the whole response, which may be
    /// prose.
    pub fenced: bool,
}

/// The program in a response; none if the response is blank.
///
/// It is the last fenced code block (of backticks or tildes) that is not empty: the last that is
/// tagged as Python, else the last without a tag, else the last of any language. A block that is an
/// interactive session (`>>> `) counts only where there is no other. A block without an end reaches
/// to the end of the response; but where the response begins with code, the only fence ends it. A
/// response without any block is a program as a whole, and one whose blocks are empty up to the
/// first. If there are thoughts that end with `</think>`, only what comes after them is read.
pub fn program(response: &str) -> Option<Program> {
    let Answer { text: answer, mut blocks, is_open } = answer(response);
    // If the prompt has opened the block, the response begins with the program and closes the
    // block.
    let first: String = answer
        .split_inclusive('\n')
        .take_while(|line| !Fence::of(line).is_some_and(|f| f.opens()))
        .collect();
    if is_open && blocks.len() == 1 && blocks[0].tag.is_empty() && begins_as_program(&first) {
        return Some(Program { text: first, fenced: false });
    }
    blocks.retain(|block| !block.text.trim().is_empty());
    let is_program = |block: &Block| !block.text.trim_start().starts_with(SESSION);
    let last = |kind: fn(&Block) -> bool| {
        blocks.iter().rposition(|block| is_program(block) && kind(block))
    };
    let last = last(Block::is_python)
        .or_else(|| last(|block| block.tag.is_empty()))
        .or_else(|| last(|_| true));
    if let Some(last) = last.or(blocks.len().checked_sub(1)) {
        return Some(Program { text: blocks.swap_remove(last).text, fenced: true });
    }
    (!first.trim().is_empty()).then_some(Program { text: first, fenced: false })
}

/// Whether a text begins with a definition, an import or an indented line.
fn begins_as_program(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty());
    first.is_some_and(|line| BEGINNINGS.iter().any(|beginning| line.starts_with(beginning)))
}

/// A fenced code block.
struct Block {
    /// First word behind the opening fence, in small letters.
    tag: String,
    text: String,
}

impl Block {
    fn is_python(&self) -> bool {
        let is_version = |rest: &str| rest.chars().all(|c| c.is_ascii_digit() || c == '.');
        PYTHON.iter().any(|word| self.tag.strip_prefix(word).is_some_and(is_version))
    }
}

/// A line that is a fence, or ends in one.
struct Fence<'a> {
    /// The text before the fence in its line.
    before: &'a str,
    /// The fence's character.
    mark: char,
    length: usize,
    /// The text behind the fence in its line.
    info: &'a str,
}

impl<'a> Fence<'a> {
    /// The first fence in a line, unless another follows, as in code within a sentence.
    fn of(line: &'a str) -> Option<Self> {
        let (at, mark) = line.match_indices(['`', '~']).find_map(|(at, mark)| {
            let mark = mark.chars().next()?;
            (run(&line[at..], mark) >= SHORTEST).then_some((at, mark))
        })?;
        let length = run(&line[at..], mark);
        let info = line[at + length..].trim();
        (!info.contains('`')).then_some(Self { before: &line[..at], mark, length, info })
    }

    fn stands_alone(&self) -> bool {
        self.before.trim().is_empty()
    }

    /// Whether a block may begin with this fence. Behind text it may have at most one word as its
    /// tag.
    fn opens(&self) -> bool {
        let is_word = |info: &str| info.chars().all(|c| c.is_alphanumeric() || "+#-_.".contains(c));
        self.stands_alone() || self.mark == '`' && is_word(self.info)
    }

    fn indent(&self) -> usize {
        if self.stands_alone() { self.before.chars().count() } else { 0 }
    }

    /// Whether this fence can end the block of the fence `open`: it has the same character, enough
    /// of them, and a similar indent.
    fn matches(&self, open: &Fence<'_>) -> bool {
        let level = !self.stands_alone() || self.indent() <= open.indent() + MARGIN;
        level && self.mark == open.mark && self.length >= open.length
    }

    fn block(&self, lines: &[&str]) -> Block {
        let tag = self.info.split_whitespace().next().unwrap_or_default();
        let tag = tag.trim_matches(['{', '}', '.']).to_lowercase();
        Block {
            tag,
            text: lines
                .iter()
                .map(|line| unindented(line, self.indent()).to_owned() + "\n")
                .collect(),
        }
    }
}

/// The number of times that a character stands at the start of a text.
fn run(text: &str, mark: char) -> usize {
    text.len() - text.trim_start_matches(mark).len() // both marks are single bytes
}

/// A line without the indent of the fence, as in a list.
fn unindented(line: &str, indent: usize) -> &str {
    let space = line.chars().take(indent).take_while(|c| matches!(c, ' ' | '\t')).count();
    &line[space..]
}

/// The part of a response behind its thoughts.
struct Answer<'a> {
    text: &'a str,
    blocks: Vec<Block>,
    /// Whether the last block is not closed.
    is_open: bool,
}

/// Reads a response line by line. Thoughts end with a mark outside of blocks, or at the start of a
/// line; other marks belong to a program's text.
fn answer(response: &str) -> Answer<'_> {
    let mut answer = Answer { text: response, blocks: Vec::new(), is_open: false };
    let mut open = None;
    let mut rest = response;
    while let Some(line) = rest.split_inclusive('\n').next() {
        rest = &rest[line.len()..];
        if let Some(at) = end_of_thoughts(line, open.as_ref()) {
            rest = &response[response.len() - rest.len() - line.len() + at..];
            open = None;
            answer = Answer { text: rest, blocks: Vec::new(), is_open: false };
            continue;
        }
        open = read_line(line.trim_end_matches(['\r', '\n']), open, &mut answer.blocks);
    }
    answer.is_open = open.is_some();
    answer.blocks.extend(open.map(|(opening, lines)| opening.block(&lines)));
    answer
}

/// A block that has begun, with its lines so far.
type OpenBlock<'a> = (Fence<'a>, Vec<&'a str>);

/// The place in a line where the text behind the thoughts begins.
fn end_of_thoughts(line: &str, open: Option<&OpenBlock<'_>>) -> Option<usize> {
    let first = line.find(END_OF_THOUGHTS)?;
    let before = &line[..first];
    let closes = |(opening, _): &OpenBlock<'_>| {
        Fence::of(before).is_some_and(|fence| fence.matches(opening) && fence.info.is_empty())
    };
    let ends = before.trim().is_empty() || open.is_none_or(closes);
    ends.then_some(first + END_OF_THOUGHTS.len())
}

/// Reads the next line. Returns the block that is open after it.
fn read_line<'a>(
    line: &'a str,
    open: Option<OpenBlock<'a>>,
    blocks: &mut Vec<Block>,
) -> Option<OpenBlock<'a>> {
    let fence = Fence::of(line);
    let Some((opening, mut lines)) = open else {
        return fence.filter(Fence::opens).map(|fence| (fence, Vec::new()));
    };
    match fence.filter(|fence| fence.matches(&opening)) {
        Some(end) if end.info.is_empty() => {
            // A closing fence may stand at the end of the last line of code.
            lines.extend((!end.stands_alone()).then_some(end.before));
            blocks.push(opening.block(&lines));
            None
        }
        // A fence with a tag begins the next block: the block before it was not closed.
        Some(next) if next.stands_alone() => {
            blocks.push(opening.block(&lines));
            Some((next, Vec::new()))
        }
        _ => {
            lines.push(line);
            Some((opening, lines))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(response: &str) -> String {
        program(response).map_or("nothing".into(), |program| program.text)
    }

    #[test]
    fn the_last_block_is_the_program() {
        for (response, expected) in [
            ("```python\na\n```", "a\n"),
            ("```\na\n```", "a\n"),
            ("First\n```python\na\n```\nthen\n```python\nb\n```\nDone.", "b\n"),
            ("```\na\n```\nBetter:\n```\nb\n```", "b\n"),
            ("``` Python\na\n```", "a\n"),
            ("~~~python\na\n~~~", "a\n"),
            ("~~~\na\n```\nb\n~~~", "a\n```\nb\n"),
            ("````python\na = '''\n```\n'''\n````", "a = '''\n```\n'''\n"),
            ("```Python3\r\na\r\n```\r\n", "a\n"),
            ("```{.python}\na\n```", "a\n"),
            ("``` python title=\"x.py\"\na\n```", "a\n"),
            ("```python\na\n\nb\n```", "a\n\nb\n"),
            // Blocks that are not well made.
            ("```python\na\nb", "a\nb\n"),
            ("```python\na\n```python\nb\n```", "b\n"),
            ("```python\na\n```\nSo be it.\n```", "a\n"),
            ("Here it is: ```python\na\n```", "a\n"),
            ("```python\nprint(1)```\nIt prints\n```text\n1\n```", "print(1)\n"),
            ("1. Do this:\n   ```python\n   if a:\n       b\n   ```", "if a:\n    b\n"),
            (
                "```python\ndef f():\n    '''\n    ```python\n    f()\n    ```\n    '''\n```",
                "def f():\n    '''\n    ```python\n    f()\n    ```\n    '''\n",
            ),
            // Blocks of other languages count if there are no others.
            ("```python\na\n```\nRun it:\n```bash\npython3 a.py\n```", "a\n"),
            ("```\na\n```\n```text\nb\n```", "a\n"),
            ("```python3.11\na\n```\n```text\nb\n```", "a\n"),
            ("```pyrex\na\n```\n```\nb\n```", "b\n"),
            ("```cpp\nint a;\n```\n```c\nint b;\n```", "int b;\n"),
            ("```cpp\nint a;\n```\n```python\n\n```", "int a;\n"),
            // An output or a session is not the program.
            ("```python\nprint(42)\n```\nIt prints\n```\n42\n```\n", "print(42)\n"),
            ("```python\nf()\n```\nusage:\n```python\n>>> f()\n42\n```", "f()\n"),
            ("```\nf()\n```\nusage:\n```\n>>> f()\n42\n```", "f()\n"),
            ("```pycon\n>>> f()\n42\n```", ">>> f()\n42\n"),
            // Thoughts are not read, unless they have no end.
            ("a ```python\nb\n``` </think>\n```python\nc\n```", "c\n"),
            ("<think>\n```python\na\n```\n", "a\n"),
            ("<think>\n```python\na\n</think>\n```python\nb", "b\n"),
            ("a </think>```python\nb\n```", "b\n"),
        ] {
            assert_eq!(found(response), expected, "{response:?}");
            assert!(program(response).unwrap().fenced);
        }
    }

    #[test]
    fn without_a_block_the_response_is_the_program() {
        for response in
            ["a = 1\nprint(a)\n", "I use ```a``` and ```b``` here.", "I do not know.", "a = '```'"]
        {
            assert_eq!(program(response), Some(Program { text: response.into(), fenced: false }));
        }
        assert_eq!(found("a = 1\nb = 2\n```"), "a = 1\nb = 2\n");
        for (begun, explained) in
            [("    return x + 1\n", ""), ("def f(x):\n    return x\n", "This returns x.\n")]
        {
            assert_eq!(found(&format!("{begun}```\n{explained}")), begun);
        }
        assert_eq!(found("Here it is:\n```\na = 1\n"), "a = 1\n");
        for response in [
            "",
            " \n\t",
            "```python\n```",
            "```\n\n```\n```",
            "```",
            "<think>\n```python\na\n```\n</think>\n",
        ] {
            assert_eq!(program(response), None, "{response:?}");
        }
    }

    #[test]
    fn a_mark_of_thoughts_in_a_program_is_its_own() {
        assert_eq!(found("<think>\n```python\na\n```\n</think>\nprint(1)"), "\nprint(1)");
        assert_eq!(found("<think>a</think>b\n<think>c</think>d"), "d");
        let of_tags = "```python\n# strips '</think>'\nprint(42)\n```";
        for thoughts in ["", "<think>a</think>\n"] {
            let response = format!("{thoughts}{of_tags}\nDone.");
            assert_eq!(found(&response), "# strips '</think>'\nprint(42)\n", "{response:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_fenced_is_found(lines in prop::collection::vec("[a-z= ()]{0,6}", 1..6), before in "[a-z .\n]{0,20}") {
            let text = lines.join("\n") + "\n";
            prop_assume!(!text.trim().is_empty());
            for tag in ["python", "py", ""] {
                prop_assert_eq!(&found(&format!("{before}\n```{tag}\n{text}```\n{before}")), &text);
            }
        }

        #[test]
        fn any_text_can_be_read(response in "[`~ \nap'ä</think>]{0,60}") {
            if let Some(Program { text, .. }) = program(&response) {
                prop_assert!(!text.trim().is_empty());
            }
        }
    }
}
