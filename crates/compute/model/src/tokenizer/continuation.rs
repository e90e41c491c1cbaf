//! Continued texts, for tokenizers that put a space before the first word of a text.

use tokenizers::normalizers::Sequence as Normalizers;
use tokenizers::pre_tokenizers::metaspace::PrependScheme;
use tokenizers::pre_tokenizers::sequence::Sequence as PreTokenizers;
use tokenizers::{NormalizerWrapper, PreTokenizerWrapper};

/// Stages of the tokenizer without the mark.
#[derive(Debug)]
pub(super) struct Continuation {
    pub normalizer: Option<NormalizerWrapper>,
    pub pre_tokenizer: Option<PreTokenizerWrapper>,
    /// Whether each piece between added tokens gets the mark, or only the beginning of the whole
    /// text.
    pub marks_each_piece: bool,
}

/// The mark of a beginning.
#[derive(Default)]
struct Marks {
    pieces: bool,
    text: bool,
}

impl Continuation {
    /// Makes the encoder for a tokenizer with these stages; None if they mark no beginning.
    pub fn of(
        normalizer: Option<&NormalizerWrapper>,
        pre_tokenizer: Option<&PreTokenizerWrapper>,
    ) -> Option<Self> {
        let mut marks = Marks::default();
        let normalizer = normalizer.and_then(|stages| unmarked(stages, &mut marks));
        let pre_tokenizer = pre_tokenizer.map(|stages| unmarked_pieces(stages, &mut marks));
        let marks_each_piece = marks.pieces;
        (marks.pieces || marks.text).then_some(Self { normalizer, pre_tokenizer, marks_each_piece })
    }
}

fn unmarked(stages: &NormalizerWrapper, marks: &mut Marks) -> Option<NormalizerWrapper> {
    match stages {
        NormalizerWrapper::Prepend(_) => {
            marks.pieces = true;
            None
        }
        NormalizerWrapper::Sequence(sequence) => {
            let stages = sequence.as_ref().iter().filter_map(|stage| unmarked(stage, marks));
            Some(NormalizerWrapper::Sequence(Normalizers::new(stages.collect())))
        }
        other => Some(other.clone()),
    }
}

fn unmarked_pieces(stages: &PreTokenizerWrapper, marks: &mut Marks) -> PreTokenizerWrapper {
    let mut stages = stages.clone();
    match &mut stages {
        PreTokenizerWrapper::Sequence(sequence) => {
            let stages = sequence.as_ref().iter().map(|stage| unmarked_pieces(stage, marks));
            *sequence = PreTokenizers::new(stages.collect());
        }
        PreTokenizerWrapper::Metaspace(metaspace) => {
            match metaspace.prepend_scheme {
                PrependScheme::Always => marks.pieces = true,
                PrependScheme::First => marks.text = true,
                PrependScheme::Never => {}
            }
            metaspace.prepend_scheme = PrependScheme::Never;
        }
        PreTokenizerWrapper::ByteLevel(bytes) => {
            marks.pieces |= bytes.add_prefix_space;
            bytes.add_prefix_space = false;
        }
        _ => {}
    }
    stages
}
