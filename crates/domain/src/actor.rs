//! Who did something: the engine by itself, an operator, or whoever ran a command beside the database.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::ids::OperatorId;

/// Who changed something. Timelines and versions keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Actor {
    /// The engine, by itself.
    Engine,
    /// A person with an operator's token.
    Operator(OperatorId),
    /// Whoever ran a command with access to the database: there is no token that names a person.
    Command,
}

const ENGINE: &str = "engine";
const COMMAND: &str = "command";
const OPERATOR_PREFIX: &str = "operator:";

impl fmt::Display for Actor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine => formatter.write_str(ENGINE),
            Self::Operator(id) => write!(formatter, "{OPERATOR_PREFIX}{id}"),
            Self::Command => formatter.write_str(COMMAND),
        }
    }
}

/// Text that names nobody who acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not engine, command, or operator: with an id")]
pub struct ActorFault;

impl FromStr for Actor {
    type Err = ActorFault;

    fn from_str(text: &str) -> Result<Actor, ActorFault> {
        match text {
            ENGINE => Ok(Self::Engine),
            COMMAND => Ok(Self::Command),
            _ => {
                let id = text.strip_prefix(OPERATOR_PREFIX).and_then(|id| id.parse().ok());
                id.map(Self::Operator).ok_or(ActorFault)
            }
        }
    }
}

impl Serialize for Actor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Actor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Actor, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_who_acts_is_read_back_from_its_text() {
        for actor in [Actor::Engine, Actor::Operator(OperatorId::NIL), Actor::Command] {
            assert_eq!(actor.to_string().parse(), Ok(actor));
            let json = serde_json::to_string(&actor).unwrap();
            assert_eq!(serde_json::from_str::<Actor>(&json).unwrap(), actor);
        }
        for other in ["", "operator", "operator:", "operator:7", "Engine"] {
            assert_eq!(other.parse::<Actor>(), Err(ActorFault), "{other}");
        }
    }
}
