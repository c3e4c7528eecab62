//! One operation, as it stands in the file.

use serde::{Deserialize, Serialize};
use settle_domain::money::Decimal;
use settle_domain::time::Timestamp;
use settle_provider::wire::{
    ConversionRequest, Operation, OperationKind, OperationStatus, PayoutRequest, Problem, ProblemCode,
    RefundRequest,
};
use uuid::Uuid;

use crate::behaviour::{Behaviour, Call};

/// What was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Asked {
    Conversion(ConversionRequest),
    Payout(PayoutRequest),
    Refund(RefundRequest),
}

impl Asked {
    pub(crate) fn operation_id(&self) -> Uuid {
        match self {
            Asked::Conversion(request) => request.operation_id,
            Asked::Payout(request) => request.operation_id,
            Asked::Refund(request) => request.operation_id,
        }
    }

    pub(crate) fn kind(&self) -> OperationKind {
        match self {
            Asked::Conversion(_) => OperationKind::Conversion,
            Asked::Payout(_) => OperationKind::Payout,
            Asked::Refund(_) => OperationKind::Refund,
        }
    }

    /// The reference that steers the sandbox.
    pub(crate) fn reference(&self) -> &str {
        match self {
            Asked::Conversion(request) => &request.payin_reference,
            Asked::Payout(request) => &request.destination_reference,
            Asked::Refund(request) => &request.payin_reference,
        }
    }

    pub(crate) fn behaviour(&self) -> Behaviour {
        Behaviour::of(self.reference(), Call::Operation(self.kind()))
    }

    /// What is moved: sold, paid or sent back.
    pub(crate) fn asset(&self) -> &str {
        match self {
            Asked::Conversion(request) => &request.sell,
            Asked::Payout(request) => &request.asset,
            Asked::Refund(request) => &request.asset,
        }
    }

    pub(crate) fn amount(&self) -> Decimal {
        match self {
            Asked::Conversion(request) => request.sell_amount,
            Asked::Payout(request) => request.amount,
            Asked::Refund(request) => request.amount,
        }
    }

    /// The code that refuses it.
    pub(crate) fn refusal(&self) -> ProblemCode {
        match self {
            Asked::Conversion(_) => ProblemCode::ConversionRefused,
            Asked::Payout(_) | Asked::Refund(_) => ProblemCode::PayoutRefused,
        }
    }
}

/// What becomes of an operation later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Change {
    /// It is executed, and has succeeded.
    Execute,
    /// Its request arrives only then: until then nobody has heard of it.
    Arrive,
    /// The money comes back.
    Return,
}

/// An operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) operation_id: Uuid,
    /// What was asked; none if it was voided before that came.
    pub(crate) asked: Option<Asked>,
    pub(crate) status: OperationStatus,
    pub(crate) provider_reference: String,
    /// How much was moved, or will be.
    pub(crate) amount: Option<Decimal>,
    /// What a conversion buys.
    pub(crate) bought: Option<Decimal>,
    pub(crate) code: Option<ProblemCode>,
    pub(crate) reason: Option<String>,
    /// How often it was executed.
    pub(crate) times: u32,
    /// What happens later, and when, in microseconds since 1970.
    pub(crate) due: Option<(i64, Change)>,
}

impl Record {
    /// Whether its request has not arrived, as far as anybody can see.
    pub(crate) fn is_on_its_way(&self) -> bool {
        matches!(self.due, Some((_, Change::Arrive)))
    }

    /// The operation as the protocol tells it.
    pub(crate) fn operation(&self, instance: &str) -> Operation {
        let asked = self.asked.as_ref();
        let bought = self.bought.filter(|_| self.status != OperationStatus::Refused);
        let (bought_asset, destination_reference) = match asked {
            Some(Asked::Conversion(request)) => (bought.map(|_| request.buy.clone()), None),
            Some(Asked::Payout(request)) => (None, Some(request.destination_reference.clone())),
            Some(Asked::Refund(_)) | None => (None, None),
        };
        Operation {
            operation_id: self.operation_id,
            instance: instance.to_owned(),
            kind: asked.map(Asked::kind),
            status: self.status,
            provider_reference: Some(self.provider_reference.clone()),
            asset: asked.map(|asked| asked.asset().to_owned()),
            amount: self.amount,
            bought_asset,
            bought_amount: bought,
            destination_reference,
            code: self.code.as_ref().map(ToString::to_string),
            reason: self.reason.clone(),
        }
    }

    /// The refusal as the answer to a request.
    pub(crate) fn problem(&self, otherwise: ProblemCode) -> Problem {
        Problem {
            code: self.code.clone().unwrap_or(otherwise),
            reason: self.reason.clone(),
            operation_id: Some(self.operation_id),
        }
    }

    /// What it is after its time has come.
    pub(crate) fn changed(&self) -> Record {
        let mut record = Record { due: None, ..self.clone() };
        match self.due {
            Some((_, Change::Execute | Change::Arrive)) => {
                record.status = OperationStatus::Succeeded;
                record.times += 1;
                (record.code, record.reason) = (None, None);
            }
            Some((_, Change::Return)) => record.status = OperationStatus::Returned,
            None => {}
        }
        record
    }

    pub(crate) fn due_at(&self) -> Option<Timestamp> {
        self.due.map(|(micros, _)| Timestamp::from_micros(micros))
    }
}
