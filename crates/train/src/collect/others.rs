//! The other ranks of a rollout, as sampling meets them.

use super::share_out::{Move, Offer, Shares, share_out};
use crate::error::{Error, Result};
use crate::ranks::Ranks;
use isentrope_rollout::{Begun, Left, Met, Peers, Place};
use serde::{Deserialize, Serialize};

/// The ranks that sample other responses of the same rollout.
pub(super) struct Others<'a> {
    ranks: &'a Ranks,
    /// Responses that have gone from one rank to another.
    pub moved: usize,
}

/// A response on its way to another rank.
#[derive(Serialize, Deserialize)]
struct Moved {
    to: usize,
    request: usize,
    sample: usize,
    begun: Begun,
}

impl<'a> Others<'a> {
    pub fn of(ranks: &'a Ranks) -> Self {
        Self { ranks, moved: 0 }
    }

    /// What comes to this rank, of all that moves.
    fn taken(&self, moves: &[Move], given: Vec<Moved>) -> Result<Vec<(Place, Begun)>> {
        let own = self.ranks.rank();
        let expected =
            moves.iter().filter(|m| m.to == own).map(|m| Place { request: m.request, sample: m.sample });
        if moves.iter().all(|m| m.tokens == 0) {
            return Ok(expected.map(|place| (place, Begun::default())).collect());
        }
        let all = self.ranks.gather(given)?.into_iter().filter(|moved| moved.to == own);
        let taken: Vec<(Place, Begun)> =
            all.map(|Moved { request, sample, begun, .. }| (Place { request, sample }, begun)).collect();
        let mut places: Vec<Place> = taken.iter().map(|(place, _)| *place).collect();
        let mut expected: Vec<Place> = expected.collect();
        places.sort_unstable();
        expected.sort_unstable();
        if places != expected {
            return Err(Error::Run(
                "another rank has not sent the responses that it was to give away".into(),
            ));
        }
        Ok(taken)
    }
}

impl Peers<Error> for Others<'_> {
    fn are_waiting(&self) -> bool {
        self.ranks.is_called()
    }

    fn meet(&mut self, left: &[Left], withdraw: &mut dyn FnMut(Place) -> Option<Begun>) -> Result<Met> {
        let left = left.iter().map(|&Left { place, tokens }| (place.request, place.sample, tokens));
        let offers = self.ranks.balance(&Offer::of(left.collect()))?;
        let Shares { moves, is_last } = share_out(&offers);
        self.moved += moves.len();
        let mut given = Vec::new();
        for &Move { to, request, sample, .. } in moves.iter().filter(|m| m.from == self.ranks.rank()) {
            let begun = withdraw(Place { request, sample }).ok_or_else(|| {
                Error::Run(format!("response {sample} to request {request} is not there to be given away"))
            })?;
            given.push(Moved { to, request, sample, begun });
        }
        Ok(Met { taken: self.taken(&moves, given)?, is_last })
    }
}
