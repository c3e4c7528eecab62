//! What a thread logs, and the fields of the spans in which it does.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

/// Keeps the messages that this thread logs, until it is dropped.
pub struct Log {
    messages: Messages,
    _guard: DefaultGuard,
    /// As long as there is only one, `tracing` asks the thread that first comes to a line whether anybody
    /// wants it, and believes that for all threads.
    _second: Dispatch,
}

impl Log {
    /// Messages of this level and graver ones, of modules whose path begins so.
    pub fn of(level: Level, target: &'static str) -> Log {
        let messages = Messages { level, target, kept: Arc::default(), fields: Arc::default() };
        let second = Dispatch::new(NoSubscriber::default());
        Log { _guard: tracing::subscriber::set_default(messages.clone()), _second: second, messages }
    }

    /// What was logged since the last call.
    pub fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.messages.kept())
    }

    /// The fields that spans began with since the last call, each as `name=value`.
    pub fn fields_taken(&self) -> Vec<String> {
        std::mem::take(&mut self.messages.fields())
    }
}

#[derive(Clone)]
struct Messages {
    level: Level,
    target: &'static str,
    kept: Arc<Mutex<Vec<String>>>,
    fields: Arc<Mutex<Vec<String>>>,
}

impl Messages {
    fn kept(&self) -> MutexGuard<'_, Vec<String>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fields(&self) -> MutexGuard<'_, Vec<String>> {
        self.fields.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the fields of a span.
struct Fields<'a>(&'a Messages);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.fields().push(format!("{}={value:?}", field.name()));
    }
}

impl Visit for &Messages {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.kept().push(format!("{value:?}"));
        }
    }
}

impl Subscriber for Messages {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level && metadata.target().starts_with(self.target)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut Fields(self));
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut &*self);
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}
