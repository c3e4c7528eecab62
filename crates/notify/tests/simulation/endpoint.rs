//! Merchants' endpoints: they answer, fail, hang and flap.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use settle_domain::seams::Clock;
use settle_notify::notification::Notification;
use settle_notify::sender::{Attempt, AttemptFault, SendError, Transport};
use settle_testing::virtual_time::pass;

use crate::world::World;

/// What an endpoint does with an attempt.
#[derive(Debug, Clone, Copy)]
enum Mood {
    Answers(u16),
    AnswersLate,
    TimesOut,
    Breaks,
    Refuses,
    Unresolvable,
    /// We could not make the attempt.
    Ours(SendError),
}

/// The network and all endpoints behind it.
pub struct Endpoints {
    pub world: Arc<World>,
    pub timeout: Duration,
}

impl Endpoints {
    /// Endpoints flap: for a while most attempts fail, then most succeed.
    fn mood(&self) -> Mood {
        let chance = &self.world.chance;
        if chance.once_in(12) {
            return Mood::Ours(*chance.pick(&[
                SendError::Resources,
                SendError::Network,
                SendError::Resolver,
            ]));
        }
        let period = self.world.clock.now().as_micros() / 1_500_000 % 3;
        let good = if period == 0 { chance.once_in(8) } else { !chance.once_in(4) };
        if good {
            return *chance.pick(&[
                Mood::Answers(200),
                Mood::Answers(204),
                Mood::Answers(299),
                Mood::AnswersLate,
            ]);
        }
        *chance.pick(&[
            Mood::Answers(500),
            Mood::Answers(302),
            Mood::Answers(410),
            Mood::Answers(429),
            Mood::TimesOut,
            Mood::Breaks,
            Mood::Refuses,
            Mood::Unresolvable,
        ])
    }

    /// Kills the dispatcher: its attempt never returns.
    async fn die(&self) -> ! {
        self.world.crash.notify_one();
        pending().await
    }
}

#[async_trait::async_trait]
impl Transport for Endpoints {
    async fn attempt(&self, _url: &str, notification: Notification) -> Result<Attempt, SendError> {
        let chance = &self.world.chance;
        let (mood, before, after) = (self.mood(), chance.once_in(150), chance.once_in(150));
        let travel = chance.up_to(Duration::from_millis(20));
        if before {
            self.die().await;
        }
        if let Mood::Ours(error) = mood {
            self.world.not_sent(&notification);
            pass(travel).await;
            return Err(error);
        }
        let failed = |fault| Attempt { response_status: None, fault: Some(fault) };
        let Some(id) = self.world.sent(&notification) else { return Ok(failed(AttemptFault::Broken)) };
        pass(travel).await;
        let attempt = match mood {
            Mood::Answers(status) if status < 300 => Attempt { response_status: Some(status), fault: None },
            Mood::Answers(status) => {
                Attempt { response_status: Some(status), fault: Some(AttemptFault::Status(status)) }
            }
            Mood::AnswersLate => {
                pass(self.timeout.saturating_sub(Duration::from_millis(25))).await;
                Attempt { response_status: Some(200), fault: None }
            }
            Mood::TimesOut => {
                pass(self.timeout).await;
                failed(AttemptFault::Timeout(self.timeout))
            }
            Mood::Breaks => failed(AttemptFault::Broken),
            Mood::Refuses => failed(AttemptFault::Connect(io::ErrorKind::ConnectionRefused)),
            Mood::Unresolvable => failed(AttemptFault::Dns),
            Mood::Ours(error) => return Err(error),
        };
        self.world.reached(id);
        if attempt.is_delivered() {
            self.world.answered(id);
        }
        if after {
            self.die().await;
        }
        Ok(attempt)
    }
}
