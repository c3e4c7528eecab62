//! The guard, the sender, the dispatcher, the alerter and the clearer, each against what it meets.

mod alerter;
mod clearer;
mod corpus;
mod dispatcher;
mod fence;
mod properties;
mod receivers;
mod resolver;
mod sender;
mod struggling;
mod verdict;
