//! Words right behind a number.

use super::has;
/// Units of two or three letters. Upper and lower case count.
const SHORT_UNITS: &str = "\
    AM AU Bq GB GHz GPa Hz KB MB MHz MJ MPa MW Mpc Nm PM Pa TB USD am amu atm bps cal cc cm cms \
    day deg dm eV fm ft gal hr hrs in kHz kJ kN kPa kW keV kg kgs km kms lb lbs mA mL mg mi min \
    ml mm mol mph ms nm oz pc pm rad rpm sec sr yd yr";

/// Letters that may be units of length, mass, time and so on. Upper and lower case count.
const UNIT_LETTERS: &str = "\
    m g s h L l N J W V A K C F T Omega";

/// Whether a word of two or three letters right after a number is a unit, not a product of
/// variables.
pub fn is_short_unit(word: &str) -> bool {
    has(SHORT_UNITS, word)
}

/// Whether a letter may be a unit after a number.
pub fn is_unit_letter(symbol: &str) -> bool {
    has(UNIT_LETTERS, symbol)
}

/// Words that are in no unit, since they join clauses, compare, doubt or deny: "5 if x > 0", "5 at
/// least", "5 maybe". Nouns are without number, but these are few.
const NO_UNITS: &str = "\
    above actually although apart assuming be been before below besides but can cannot choose \
    conditional could depending doubtful either else except excluding given guess guessed \
    hopefully if instead is least likely maximum may maybe might minimum minus mod modulo most \
    must neither never no nor not or otherwise over perhaps plus point possibly presumably \
    probably provided providing questionable rather remainder short should so suppose supposing \
    sure tentatively than though too uncertain unless unlikely unsure until upward upwards wait \
    was were whenever whereas while will without would mille";

/// Words after "times" with which it multiplies: "5 times as many", "5 times itself".
const MULTIPLIED: &[&str] = &[
    "as", "more", "less", "the", "that", "larger", "greater", "bigger", "smaller", "of", "itself",
];

/// Whether a word right after a number, or after its unit, is no part of what the number counts.
pub fn is_no_unit(word: &str) -> bool {
    has(NO_UNITS, word)
}

/// Whether two words after a number multiply it.
pub fn multiplies(first: &str, second: &str) -> bool {
    first == "times" && MULTIPLIED.contains(&second)
}

/// Endings behind a number that are left out: 15th is 15.
pub const ORDINALS: &[&str] = &["st", "nd", "rd", "th"];

/// The first half of the day, after an hour: 3 a.m. is not 3 p.m.
pub const AM: &str = "am";

/// The second half of the day.
pub const PM: &str = "pm";

pub const PERCENT: &[&str] = &["percent", "per cent"];

/// Words for the unit of angles that is the radius.
pub const RADIANS: &[&str] = &["radian", "radians", "rad", "rads"];

/// Remarks on a value, in brackets, that change nothing: "5 (as required)".
pub const REMARKS: &str = "\
    as required|as desired|as expected|as needed|as claimed|in all|in total|total|altogether|\
    exact|exactly|approx|approximately|rounded|simplified|unsimplified|answer|final answer|\
    the answer|correct|unit|units|square units|cubic units|dollars|meters|metres|hours|minutes|\
    seconds|days|years";
