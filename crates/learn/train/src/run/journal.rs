//! The journal of a rollout: each judged response, and each turn of an episode that is under way,
//! is written at once, so that a run that is killed need not sample it again.
//!
//! Each rank appends to a file of its own, `rollouts/step-N.rank-R.journal`. A process that makes
//! the step again reads the journals of all ranks. The first line has everything that the responses
//! depend on; a journal of other weights or other settings is not used. A line is the CRC-32C of
//! its JSON, a space, and the JSON; lines after a damaged one are not used. The journals of a step
//! are removed when a checkpoint has it.
//!
//! Opening reads every journal once and keeps where each entry is. An entry's content is read again
//! when it is taken: a rank takes few of all ranks' entries, and few turns of complete episodes.

use super::directory::step_of;
use crate::error::{Error, Result};
use isentrope_data::Problem;
use isentrope_files::{Digest, names, open_regular, remove, sha256_of_file};
use isentrope_rollout::{PlayedTurn, Response, TurnLink};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const EXTENSION: &str = ".journal";
/// Longest line that is read.
const MAX_LINE: u64 = 1 << 30;
/// Bytes of a checksum and the space after it.
const CHECKSUM_BYTES: usize = 9;

/// Everything that a step's responses depend on, except their prompts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Heading {
    program: String,
    /// The arithmetic with which the responses were computed.
    arithmetic: String,
    /// The hash of all settings of drawing and judging.
    settings: String,
    /// The checksum of the weights.
    weights: u64,
}

impl Heading {
    /// The heading for weights of this checksum that sample with an arithmetic under these
    /// settings. Files that the settings name, such as a reward function's, count as well.
    pub fn new(weights: u64, arithmetic: &str, settings: &impl Serialize) -> Result<Self> {
        let settings = serde_json::to_value(settings)
            .map_err(|e| Error::Run(format!("the settings of a rollout cannot be written: {e}")))?;
        let mut digest = Digest::sha256();
        digest.update(settings.to_string().as_bytes());
        add_files(&settings, &mut digest);
        Ok(Self {
            program: env!("CARGO_PKG_VERSION").to_owned(),
            arithmetic: arithmetic.to_owned(),
            settings: digest.hex(),
            weights,
        })
    }

    /// Why responses under another heading cannot be used under this one.
    fn refuses(&self, other: &Self) -> String {
        let Self { program, arithmetic, settings, weights } = self;
        let why = [
            (*program != other.program)
                .then(|| format!("this is version {program}, and that was {}", other.program)),
            (*arithmetic != other.arithmetic)
                .then(|| format!("the arithmetic is {arithmetic}, and was {}", other.arithmetic)),
            (*settings != other.settings)
                .then(|| "settings of how responses are drawn or judged have changed".to_owned()),
            (*weights != other.weights).then(|| "the weights are others".to_owned()),
        ];
        why.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

/// Names a response of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ResponseKey {
    /// The prompt's number in the step.
    pub prompt: u64,
    /// Whether it is the most likely response, the baseline of the others.
    pub greedy: bool,
    /// The response's number among those to the prompt.
    pub sample: usize,
}

/// A line behind the heading.
#[derive(Serialize, Deserialize)]
struct Entry<'a> {
    #[serde(rename = "asked")]
    key: ResponseKey,
    /// The checksum of its problem: [`checksum_of`].
    of: u32,
    #[serde(flatten)]
    content: Content<'a>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Content<'a> {
    Response(Cow<'a, Response>),
    /// A turn of a response's episode.
    Turn(Cow<'a, PlayedTurn>),
}

/// The place of a line.
#[derive(Clone, Copy)]
struct Place {
    /// Index in [`Known::files`].
    file: usize,
    /// Bytes before it.
    start: u64,
    bytes: usize,
}

/// The entries of earlier processes, keyed by question and problem checksum, so that an edited
/// problem gets fresh ones.
#[derive(Default)]
struct Known {
    files: Vec<PathBuf>,
    responses: HashMap<(ResponseKey, u32), Place>,
    /// The turns of each response's episode as they were written, also of complete ones.
    turns: HashMap<(ResponseKey, u32), Vec<(TurnLink, Place)>>,
    /// Why the entries of a file cannot be used.
    unused: Option<String>,
    /// The first damaged line of each file that has one.
    damage: Vec<String>,
}

/// The journal of the step under way.
pub struct Journal {
    path: PathBuf,
    file: File,
    heading: Heading,
    /// Sound bytes at the start of this rank's file.
    sound: u64,
    known: Known,
}

impl Journal {
    /// Reads the journals of a step in a directory of rollouts, and makes this rank's file if it is
    /// missing.
    ///
    /// # Errors
    /// When a journal cannot be read or is no regular file. Damage is no error:
    /// [`damage`](Self::damage).
    pub fn open(dir: &Path, step: u64, rank: usize, heading: &Heading) -> Result<Self> {
        let path = dir.join(format!("step-{step:06}.rank-{rank}{EXTENSION}"));
        let mut all = journals(dir)?;
        all.retain(|other| other.file_name().and_then(step_of) == Some(step));
        all.sort();
        let (mut known, mut sound) = (Known::default(), 0);
        for journal in all {
            let is_own = journal == path;
            let length = known.add_file(journal, heading)?;
            if is_own {
                sound = length;
            }
        }
        let opened = File::options().append(true).create(true).open(&path);
        let file = opened.map_err(|e| Error::io(&path, e))?;
        Ok(Self { path, file, heading: heading.clone(), sound, known })
    }

    /// Prepares this rank's file for new lines: what cannot be used is cut off. All ranks must have
    /// opened the step's journals before, so that each knows the same of all files.
    pub fn begin_writing(&mut self) -> Result<()> {
        self.file.set_len(self.sound).map_err(|e| Error::io(&self.path, e))?;
        if self.sound == 0 { self.line(&self.heading.clone()) } else { Ok(()) }
    }

    /// The number of responses known from an earlier process.
    pub fn known(&self) -> usize {
        self.known.responses.len()
    }

    /// The number of turns known from an earlier process, of episodes that were not complete. Turns
    /// for which the environment gave another answer later do not count.
    pub fn known_turns(&self) -> usize {
        let Known { responses, turns, .. } = &self.known;
        let unfinished = turns.iter().filter(|(key, _)| !responses.contains_key(key));
        let links = |turns: &[(TurnLink, Place)]| turns.iter().map(|(link, _)| *link).collect();
        unfinished.map(|(_, turns)| TurnLink::chain(links(turns)).len()).sum()
    }

    /// Why some or all of the earlier responses are sampled again.
    pub fn unused(&self) -> Option<&str> {
        self.known.unused.as_deref()
    }

    /// The first damaged line of each file that has one, as `PATH (line 7, byte 4096)`. What a file
    /// has from there on is not used. A last line that a kill has cut off is no damage.
    pub fn damage(&self) -> &[String] {
        &self.known.damage
    }

    /// The response to a problem of this [checksum](checksum_of), if an earlier process has left
    /// it. Each response is returned once.
    ///
    /// # Errors
    /// When its journal cannot be read any more.
    pub fn take(&mut self, key: ResponseKey, of: u32) -> Result<Option<Response>> {
        let place = self.known.responses.remove(&(key, of));
        let response = place.map(|place| match self.known.content(place)? {
            Content::Response(response) => Ok(response.into_owned()),
            Content::Turn(_) => Err(self.known.has_changed(place)),
        });
        response.transpose()
    }

    /// The turns of such a response's episode that earlier processes have left, as they were
    /// written. They are returned once.
    ///
    /// # Errors
    /// When a journal cannot be read any more.
    pub fn take_turns(&mut self, key: ResponseKey, of: u32) -> Result<Vec<PlayedTurn>> {
        let places = self.known.turns.remove(&(key, of)).unwrap_or_default();
        let turn = |(_, place)| match self.known.content(place)? {
            Content::Turn(turn) => Ok(turn.into_owned()),
            Content::Response(_) => Err(self.known.has_changed(place)),
        };
        places.into_iter().map(turn).collect()
    }

    /// Writes a response down, unless it could not be judged or the verifier failed at it: that may
    /// be mended when the step is made again.
    pub fn add(&mut self, key: ResponseKey, of: u32, response: &Response) -> Result<()> {
        if !response.is_judged() || response.judgement.failed {
            return Ok(());
        }
        self.line(&Entry { key, of, content: Content::Response(Cow::Borrowed(response)) })
    }

    /// Writes down a turn of a response's episode.
    pub fn add_turn(&mut self, key: ResponseKey, of: u32, turn: &PlayedTurn) -> Result<()> {
        self.line(&Entry { key, of, content: Content::Turn(Cow::Borrowed(turn)) })
    }

    /// Writes a whole line. The operating system has it when this returns.
    fn line(&mut self, value: &impl Serialize) -> Result<()> {
        let mut line = vec![b' '; CHECKSUM_BYTES];
        serde_json::to_writer(&mut line, value)
            .map_err(|error| Error::Run(format!("a response cannot be written: {error}")))?;
        let checksum = format!("{:08x}", crc32c::crc32c(&line[CHECKSUM_BYTES..]));
        line[..checksum.len()].copy_from_slice(checksum.as_bytes());
        line.push(b'\n');
        self.file.write_all(&line).map_err(|e| Error::io(&self.path, e))
    }
}

impl Known {
    /// Adds the entries of a journal, and returns the number of sound bytes at its start: 0 for a
    /// journal of other weights, settings or another arithmetic.
    fn add_file(&mut self, path: PathBuf, heading: &Heading) -> Result<u64> {
        let mut lines = BufReader::new(open_regular(&path)?);
        let mut next = |line: &mut Vec<u8>| {
            line.clear();
            let read = (&mut lines).take(MAX_LINE).read_until(b'\n', line);
            read.map_err(|e| Error::io(&path, e))
        };
        let (mut line, mut start, file) = (Vec::new(), 0, self.files.len());
        for number in 1_u64.. {
            let bytes = next(&mut line)?;
            let json = json_of(&line);
            if let (Some(json), 1) = (json, number) {
                let why = match serde_json::from_slice::<Heading>(json) {
                    Ok(found) if found == *heading => None,
                    Ok(other) => Some(heading.refuses(&other)),
                    Err(_) => Some("another version has written it".to_owned()),
                };
                if let Some(why) = why {
                    next(&mut line)?;
                    if json_of(&line).is_some() {
                        self.unused = Some(why); // one without a response has nothing to lose
                    }
                    return Ok(0);
                }
            } else if let Some(entry) = json.and_then(|json| serde_json::from_slice(json).ok()) {
                self.add(entry, Place { file, start, bytes });
            } else {
                if !is_cut_off(&line) {
                    let place = format!("{} (line {number}, byte {start})", path.display());
                    self.damage.push(place);
                }
                break;
            }
            start += bytes as u64;
        }
        self.files.push(path);
        Ok(start)
    }

    fn add(&mut self, Entry { key, of, content }: Entry<'_>, place: Place) {
        match content {
            Content::Response(_) => {
                self.responses.entry((key, of)).or_insert(place);
            }
            Content::Turn(turn) => {
                self.turns.entry((key, of)).or_default().push((turn.link(), place));
            }
        }
    }

    fn content(&self, place: Place) -> Result<Content<'static>> {
        let path = &self.files[place.file];
        let (mut file, mut line) = (open_regular(path)?, vec![0; place.bytes]);
        file.seek(SeekFrom::Start(place.start)).map_err(|e| Error::io(path, e))?;
        file.read_exact(&mut line).map_err(|e| Error::io(path, e))?;
        let entry = json_of(&line).and_then(|json| serde_json::from_slice::<Entry<'_>>(json).ok());
        entry.map(|entry| entry.content).ok_or_else(|| self.has_changed(place))
    }

    fn has_changed(&self, place: Place) -> Error {
        let path = self.files[place.file].display();
        Error::Run(format!("{path} was changed while the run went on; start again with --resume"))
    }
}

/// Removes the journals of steps up to this one.
pub(super) fn remove_journals(dir: &Path, step: u64) -> Result<()> {
    for path in journals(dir)? {
        if path.file_name().and_then(step_of).is_some_and(|of| of <= step) {
            remove(&path)?;
        }
    }
    Ok(())
}

/// Whether a directory of rollouts, which need not be there, has a journal of a step.
pub(super) fn has_journal(dir: &Path, step: u64) -> Result<bool> {
    let journals = journals(dir)?;
    Ok(journals.iter().any(|path| path.file_name().and_then(step_of) == Some(step)))
}

/// Whether a file in a directory of rollouts is a journal.
pub(super) fn is_journal(name: &std::ffi::OsStr) -> bool {
    name.to_str().is_some_and(|name| name.ends_with(EXTENSION))
}

fn journals(dir: &Path) -> Result<Vec<PathBuf>> {
    Ok(names(dir)?.iter().filter(|name| is_journal(name)).map(|name| dir.join(name)).collect())
}

/// The JSON of a line that is complete and has the right checksum.
fn json_of(line: &[u8]) -> Option<&[u8]> {
    let (checksum, json) = line.strip_suffix(b"\n")?.split_at_checked(CHECKSUM_BYTES)?;
    let checksum = std::str::from_utf8(checksum).ok()?.strip_suffix(' ')?;
    (u32::from_str_radix(checksum, 16).ok()? == crc32c::crc32c(json)).then_some(json)
}

/// Whether a line that cannot be read is where a file ends, also one whose last line a kill has cut
/// off. After a power cut, the end may be zeros, which is damage.
fn is_cut_off(line: &[u8]) -> bool {
    !line.ends_with(b"\n") && !line.contains(&0) && (line.len() as u64) < MAX_LINE
}

/// CRC-32C of the prompt's tokens and of the problem with its ground truth: a response in the
/// journal is used only for the same question.
pub fn checksum_of(problem: &Problem, prompt: &[u32]) -> Result<u32> {
    let problem = serde_json::to_vec(problem)
        .map_err(|error| Error::Run(format!("a problem cannot be written: {error}")))?;
    let of_problem = crc32c::crc32c(&problem);
    Ok(prompt
        .iter()
        .fold(of_problem, |sum, token| crc32c::crc32c_append(sum, &token.to_le_bytes())))
}

/// Adds the contents of the files that texts of the settings name, as `reward.py` or
/// `reward.py:compute_score`.
fn add_files(settings: &Value, digest: &mut Digest) {
    match settings {
        Value::String(text) => {
            let script = text.rsplit_once(':').map(|(file, _)| file);
            for file in [Some(text.as_str()), script].into_iter().flatten() {
                if let Ok(hash) = sha256_of_file(Path::new(file)) {
                    digest.update(hash.as_bytes());
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| add_files(value, digest)),
        Value::Object(values) => values.values().for_each(|value| add_files(value, digest)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support;
    use std::fs;

    fn heading(weights: f64) -> Heading {
        let (program, arithmetic, settings) = ("1".into(), "f32".into(), "s".into());
        Heading { program, arithmetic, settings, weights: weights.to_bits() }
    }

    fn response(text: &str, reward: Option<f64>) -> Response {
        let (logprobs, entropies) =
            (vec![-0.1, f32::MIN_POSITIVE / 3.0, -0.2], vec![0.3, f32::NAN, 0.1]);
        Response { text: text.into(), logprobs, entropies, ..test_support::response(reward) }
    }

    fn key(prompt: u64, sample: usize) -> ResponseKey {
        ResponseKey { prompt, greedy: false, sample }
    }

    const OF: u32 = 34;

    fn begun(dir: &Path, step: u64, rank: usize, heading: &Heading) -> Journal {
        let mut journal = Journal::open(dir, step, rank, heading).unwrap();
        journal.begin_writing().unwrap();
        journal
    }

    #[test]
    fn what_any_rank_has_written_is_known_to_all() {
        let dir = tempfile::tempdir().unwrap();
        let open = |rank, weights| begun(dir.path(), 12, rank, &heading(weights));
        for rank in 0..3 {
            let mut journal = open(rank, 1.0);
            journal.add(key(rank as u64, 5), OF, &response("a\nb", Some(0.1 + 0.2))).unwrap();
            journal.add(key(9, rank), OF, &response("x", None)).unwrap();
        }
        let mut journal = open(1, 1.0);
        assert_eq!(journal.known(), 3, "what could not be judged is sampled again");
        let found = journal.take(key(2, 5), OF).unwrap().unwrap();
        assert_eq!(found.logprobs, response("", Some(0.1 + 0.2)).logprobs);
        assert!(found.text == "a\nb" && found.reward == 0.1 + 0.2 && found.entropies[1].is_nan());
        assert!(journal.take(key(2, 5), OF).unwrap().is_none(), "it is given once");
        // An edited problem has another checksum, and an entry of its own.
        assert!(journal.take(key(1, 5), OF + 1).unwrap().is_none());
        journal.add(key(1, 5), OF + 1, &response("after", Some(0.3))).unwrap();
        let mut again = open(1, 1.0);
        for (of, text) in [(OF, "a\nb"), (OF + 1, "after")] {
            assert_eq!(again.take(key(1, 5), of).unwrap().unwrap().text, text);
        }
        assert!(journal.take(ResponseKey { greedy: true, ..key(0, 5) }, OF).unwrap().is_none());
        drop(journal);

        let first = begun(dir.path(), 13, 0, &heading(1.0));
        assert_eq!((first.known(), first.unused()), (0, None));
        // A journal without responses has nothing to lose.
        let other = begun(dir.path(), 13, 0, &heading(2.0));
        assert_eq!((other.known(), other.unused()), (0, None));
        // With other weights, this rank's file begins anew and others are left alone.
        let anew = open(1, 2.0);
        assert_eq!((anew.known(), anew.unused()), (0, Some("the weights are others")));
        assert_eq!(open(5, 1.0).known(), 2);
        // Under another arithmetic the sampler's log-probs would differ from the trainer's.
        let other = Heading { arithmetic: "bf16-t16".into(), ..heading(1.0) };
        let journal = begun(dir.path(), 12, 6, &other);
        assert_eq!(
            (journal.known(), journal.unused()),
            (0, Some("the arithmetic is bf16-t16, and was f32"))
        );
        // A journal whose first line has another form is ignored too.
        let path = dir.path().join("step-000012.rank-7.journal");
        let mut journal = open(7, 1.0);
        fs::write(&path, "").unwrap();
        journal.line(&serde_json::json!({ "program": "0.0.1" })).unwrap();
        journal.add(key(3, 0), OF, &response("x", Some(0.1 + 0.2))).unwrap();
        assert_eq!(open(7, 1.0).unused(), Some("another version has written it"));
        remove_journals(dir.path(), 12).unwrap();
        assert_eq!(names(dir.path()).unwrap(), ["step-000013.rank-0.journal"]);
    }

    /// Behind a turn of the token 5.
    fn second() -> u32 {
        crc32c::crc32c(&5_u32.to_le_bytes())
    }

    fn turn(token: u32, after: u32) -> PlayedTurn {
        let part = serde_json::json!({"tokens": [token], "logprobs": [7], "entropies": [8]});
        let turn = serde_json::json!({"after": after, "part": part, "text": "x", "reward": 0.3});
        serde_json::from_value(turn).unwrap()
    }

    #[test]
    fn turns_of_every_rank_are_known_until_their_episode_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let open = |rank, weights| begun(dir.path(), 1, rank, &heading(weights));
        for rank in 0..2 {
            let mut journal = open(rank, 1.0);
            let after = [0, second()][rank];
            journal.add_turn(key(0, 0), OF, &turn(5 + rank as u32, after)).unwrap();
            journal.add_turn(key(1, rank), OF, &turn(9, 0)).unwrap();
        }
        let mut journal = open(2, 1.0);
        assert_eq!((journal.known(), journal.known_turns()), (0, 4));
        assert_eq!(journal.take_turns(key(0, 0), OF).unwrap(), [turn(5, 0), turn(6, second())]);
        assert_eq!(journal.take_turns(key(0, 0), OF).unwrap(), [], "they are given once");
        assert_eq!(journal.take_turns(key(1, 0), OF + 1).unwrap(), [], "of another problem");
        journal.add(key(0, 0), OF, &response("x", Some(0.5))).unwrap();
        assert_eq!((open(2, 1.0).known(), open(2, 1.0).known_turns()), (1, 2));
        // A turn that is cut off is not used, and those before it are.
        let path = dir.path().join("step-000001.rank-1.journal");
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert_eq!(open(2, 1.0).known_turns(), 1);
        let other = open(1, 2.0);
        assert_eq!((other.known_turns(), other.unused()), (0, Some("the weights are others")));
    }

    #[test]
    fn what_a_kill_has_cut_off_or_a_disk_has_changed_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("step-000001.rank-0.journal");
        let open = || begun(dir.path(), 1, 0, &heading(1.0));
        let mut journal = open();
        for sample in 0..4 {
            journal.add(key(0, sample), OF, &response("abc", Some(0.1 + 0.2))).unwrap();
        }
        let whole = fs::read(&path).unwrap();
        let ends: Vec<usize> = (1..=whole.len()).filter(|&end| whole[end - 1] == b'\n').collect();
        assert_eq!(ends.len(), 5);
        // Every position near the end of a line, and some others.
        let near =
            |at: usize| at.is_multiple_of(17) || ends.iter().any(|&end| end.abs_diff(at) < 3);
        for cut in (0..=whole.len()).filter(|&at| near(at)) {
            fs::write(&path, &whole[..cut]).unwrap();
            let lines = ends.iter().filter(|end| **end <= cut).count();
            let journal = open();
            assert_eq!(journal.known(), lines.saturating_sub(1), "{cut}");
            assert!(journal.damage().is_empty(), "a kill is no damage");
            let kept = if lines == 0 { ends[0] } else { ends[lines - 1] };
            assert_eq!(fs::read(&path).unwrap(), &whole[..kept], "{cut}");
        }
        for at in (0..whole.len()).filter(|&at| near(at)) {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, &damaged).unwrap();
            let line = ends.iter().filter(|end| **end <= at).count();
            // Another rank reads it before its own cuts it off.
            let [other, own] =
                [1, 0].map(|rank| Journal::open(dir.path(), 1, rank, &heading(1.0)).unwrap());
            for journal in [other, own] {
                assert_eq!(journal.known(), line.saturating_sub(1), "{at}");
                // Without its newline the last line looks cut off.
                let start = if line == 0 { 0 } else { ends[line - 1] };
                let place = format!("{} (line {}, byte {start})", path.display(), line + 1);
                let damage = if at + 1 < whole.len() { vec![place] } else { Vec::new() };
                assert_eq!(journal.damage(), damage, "{at}");
            }
        }
        // A power cut may leave zeros.
        fs::write(&path, [&whole[..ends[1]], &[0; 9]].concat()).unwrap();
        let journal = open();
        assert_eq!((journal.known(), journal.damage().len()), (1, 1));
        fs::write(&path, &whole).unwrap();
        let mut journal = open();
        journal.add(key(1, 0), OF, &response("after", Some(0.1 + 0.2))).unwrap();
        drop(journal);
        assert!(open().take(key(1, 0), OF).unwrap().is_some());
    }

    #[test]
    fn a_turn_that_was_written_twice_counts_once() {
        let dir = tempfile::tempdir().unwrap();
        let open = || begun(dir.path(), 1, 0, &heading(1.0));
        let mut journal = open();
        let turns = [&turn(5, 0), &turn(6, second()), &turn(7, second()), &turn(8, 99)];
        for turn in turns.into_iter().chain(turns) {
            journal.add_turn(key(0, 0), OF, turn).unwrap();
        }
        let mut journal = open();
        assert_eq!(journal.known_turns(), 2, "the first, and one of the two behind it");
        assert_eq!(journal.take_turns(key(0, 0), OF).unwrap().len(), 8);
    }

    #[test]
    fn a_line_is_what_it_was() {
        let line = concat!(
            r#"{"asked":{"prompt":3,"greedy":false,"sample":1},"of":34,"turn":{"after":0,"#,
            r#""part":{"tokens":[5],"logprobs":[7],"entropies":[8]},"text":"x","reward":0.3}}"#,
        );
        let dir = tempfile::tempdir().unwrap();
        begun(dir.path(), 1, 0, &heading(1.0)).add_turn(key(3, 1), OF, &turn(5, 0)).unwrap();
        let text = fs::read_to_string(dir.path().join("step-000001.rank-0.journal")).unwrap();
        assert_eq!(&text.lines().nth(1).unwrap()[CHECKSUM_BYTES..], line);
        let entry: Entry<'_> = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&entry).unwrap(), line);
    }

    #[test]
    #[cfg(unix)]
    fn what_is_no_regular_file_is_refused() {
        for rank in [0, 1] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join(format!("step-000001.rank-{rank}.journal"));
            assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
            let error = Journal::open(dir.path(), 1, 0, &heading(1.0)).err().unwrap().to_string();
            assert!(error.contains(path.to_str().unwrap()) && error.contains("a pipe"), "{error}");
        }
    }

    #[test]
    fn a_changed_reward_function_is_another_setting() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("reward.py");
        let digest = |text: &str| {
            let mut digest = Digest::sha256();
            add_files(&serde_json::json!({ "verifier": { "python": [text] } }), &mut digest);
            digest.hex()
        };
        let named = format!("{}:compute_score", file.display());
        let without = digest(&named);
        fs::write(&file, "1").unwrap();
        let first = digest(&named);
        fs::write(&file, "2").unwrap();
        assert!(first != without && digest(&named) != first);
        assert_eq!(digest("another"), without);
    }
}
