//! The names of those who acted: timelines, proposals and versions keep only their ids.

use std::collections::HashMap;

use settle_domain::actor::Actor;
use settle_store::{Store, StoreResult};

/// The names of operators, also of those whose tokens are revoked.
pub(super) struct Names(HashMap<Actor, String>);

impl Names {
    /// Reads the names, unless nobody who acted has one.
    pub(super) async fn of(store: &dyn Store, actors: impl IntoIterator<Item = Actor>) -> StoreResult<Names> {
        if !actors.into_iter().any(|actor| matches!(actor, Actor::Operator(_))) {
            return Ok(Names(HashMap::new()));
        }
        let operators = store.operator_list().await?;
        let named = operators.into_iter().map(|known| (Actor::Operator(known.operator_id), known.name));
        Ok(Names(named.collect()))
    }

    /// The name of somebody who acted, if it has one.
    pub(super) fn find(&self, actor: Actor) -> Option<String> {
        self.0.get(&actor).cloned()
    }
}
