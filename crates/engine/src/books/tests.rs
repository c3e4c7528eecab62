//! What no store lets anybody write, and a damaged database may hold all the same.

use settle_domain::ids::MerchantId;
use settle_domain::ledger::Account;
use settle_store::Balance;

use super::examination::Examination;
use super::{Equation, TOLD_MAX};

fn balance(account: Account, asset: &str, amount: &str) -> Balance {
    Balance {
        merchant_id: MerchantId::NIL,
        account,
        asset: asset.parse().unwrap(),
        amount: amount.parse().unwrap(),
    }
}

#[test]
fn balances_that_do_not_sum_to_zero_are_named() {
    let rows = vec![balance(Account::Payer, "BRL", "-10.00"), balance(Account::ClientFunds, "BRL", "9.99")];
    let checked = Examination::of(MerchantId::NIL, rows).finish().unwrap();
    let zero = checked.disagreements.iter().find(|found| found.equation == Equation::Zero).unwrap();
    let nil = MerchantId::NIL;
    let words = format!("merchant {nil}: all accounts BRL: the books say -0.01, must sum to 0.00");
    assert_eq!(zero.to_string(), words);
}

#[test]
fn what_is_negative_is_named_unless_it_may_be() {
    for account in Account::ALL.iter().copied() {
        let rows = vec![balance(account, "BRL", "-1.00"), balance(Account::Payer, "USDC", "0.000000")];
        let checked = Examination::of(MerchantId::NIL, rows).finish().unwrap();
        let negative = checked.disagreements.iter().find(|found| found.equation == Equation::NotNegative);
        assert_eq!(negative.is_some(), !account.may_be_negative(), "{account}");
        if let Some(found) = negative {
            assert!(
                found.to_string().contains(": the books say -1.00, may not be less than 0.00"),
                "{found}"
            );
        }
    }
}

#[test]
fn a_merchant_of_whom_nothing_agrees_is_told_of_in_part() {
    let rows = Account::ALL.iter().flat_map(|account| {
        settle_domain::money::Asset::ALL.map(|asset| Balance {
            merchant_id: MerchantId::NIL,
            account: *account,
            asset,
            amount: settle_domain::ledger::SignedAmount::of(asset.amount("1".parse().unwrap()).unwrap())
                .unwrap(),
        })
    });
    let rows: Vec<Balance> = rows.collect();
    let (accounts, assets) = (Account::ALL.len(), settle_domain::money::Asset::ALL.len());
    let checked = Examination::of(MerchantId::NIL, rows).finish().unwrap();
    assert_eq!(checked.found, u64::try_from(accounts * assets + assets).unwrap());
    assert_eq!(checked.disagreements.len(), TOLD_MAX.min(accounts * assets + assets));
}
