//! A second wall besides mounts: Landlock allows only the shown paths to be opened, whatever is
//! mounted.

use std::ffi::OsStr;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, RestrictionStatus, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, Scope, path_beneath_rules,
};

use super::plan::VisiblePath;
use super::{Problem, attempt};

/// The newest Landlock version whose rights are asked for; an older kernel takes those that it
/// knows.
const NEWEST: ABI = ABI::V7;

/// Restricts this process and its children as far as the kernel can. Returns the kernel's Landlock
/// version, 0 if it has none.
pub fn restrict(shown: &[VisiblePath]) -> Result<u8, Problem> {
    Ok(match attempt("Landlock refuses its rules", rules(shown))?.landlock {
        LandlockStatus::Available { effective_abi, .. } => effective_abi as u8,
        _ => 0,
    })
}

fn rules(shown: &[VisiblePath]) -> Result<RestrictionStatus, RulesetError> {
    let read = AccessFs::from_read(NEWEST);
    let temporary = AccessFs::from_all(NEWEST)
        & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::MakeSock | AccessFs::IoctlDev);
    let paths = |wanted: fn(&VisiblePath) -> Option<&OsStr>| shown.iter().filter_map(wanted);
    let shown = paths(|shown| (!matches!(shown, VisiblePath::Link(..))).then(|| shown.path()));
    let device: BitFlags<AccessFs> = AccessFs::ReadFile.into();
    Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(path_beneath_rules(shown, read))?
        .add_rules(path_beneath_rules(["/tmp"], temporary))?
        .add_rules(path_beneath_rules(["/dev/random", "/dev/urandom"], device))?
        .add_rules(path_beneath_rules(
            ["/dev/null"],
            device | AccessFs::WriteFile | AccessFs::Truncate,
        ))?
        .restrict_self()
}
