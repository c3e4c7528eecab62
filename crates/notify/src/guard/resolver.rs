//! The resolver of the service: hickory, with strict options.
//!
//! - Names are absolute: no search domain completes them, no host file overrides them.
//! - The resolver asks for A and AAAA, and both answers must be complete. "There is none" is an answer; an
//!   error or silence is not, and refuses the name even if the other answer is good. So a server that fails
//!   on AAAA cannot hide an address from the check. The price: such a name does not resolve until its server
//!   is repaired.
//! - Nothing is cached: each connection is one look-up, which notices a name that has moved to a private
//!   address (rebinding), and a repaired name works at once. The recursive name server has a cache anyway,
//!   and look-ups of the same name at the same time share one question.
//! - A name without an answer may be the fault of its own name servers or of ours. So the resolver then asks
//!   for [`PROBE_NAME`]: if that has no answer either, ours are away ([`Resolve::is_away`]).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use async_trait::async_trait;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ProtocolConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use hickory_resolver::system_conf::read_system_conf;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::{Resolve, ResolveFault};

/// How long resolving a name may take in all, at most: both questions, aliases and repetitions.
pub const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// A name that every working DNS knows. "No such name" is an answer too.
pub const PROBE_NAME: &str = "a.root-servers.net";

/// How long the question for [`PROBE_NAME`] may take: so many fifths of the limit for a name.
const PROBE_FIFTHS: u32 = 2;
/// How long its answer holds: many names without an answer are one question.
const PROBE_KEPT: Duration = Duration::from_secs(1);

/// How often the resolver repeats a question after silence or an error of the server, within the limit.
const REPETITIONS: u8 = 2;

/// Most questions under way on one TCP connection, which carries long answers. Beyond it hickory reports an
/// error, which would look like the host's; so it must exceed the number of deliveries in flight.
const TCP_QUESTIONS_MAX: usize = 4_096;

/// The name server that the system asks when none is configured (resolv.conf(5)).
const NAMESERVER_DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 53);

/// Asks name servers for the addresses of absolute names.
#[derive(Debug)]
pub struct DnsResolver {
    resolver: TokioResolver,
    limit: Duration,
    /// When the resolver last asked for the probe's name, and whether it got no answer. Whoever asks while
    /// the question is under way waits for its answer.
    probed: Mutex<Option<(Instant, bool)>>,
}

impl DnsResolver {
    /// The limit for a name in an exchange that may take so long in all. Even if the probe follows it, the
    /// exchange has time left: otherwise name servers of ours that are away would look like an endpoint that
    /// does not answer.
    #[must_use]
    pub fn limit_within(exchange: Duration) -> Duration {
        RESOLVE_TIMEOUT.min(exchange / 2)
    }

    /// A resolver that asks these name servers, or the system's if the list is empty, and takes no longer
    /// than the limit for a name; the service gives [`DnsResolver::limit_within`].
    ///
    /// It reads the system's servers once, here.
    pub fn new(nameservers: &[SocketAddr], limit: Duration) -> Result<Self, ResolveFault> {
        let nameservers = if nameservers.is_empty() {
            system_nameservers()
        } else {
            nameservers.iter().map(plain).collect()
        };
        let config = ResolverConfig::from_name_servers(nameservers);
        let resolver = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
            .with_options(options(limit))
            .build()
            .map_err(|error| fault(&error))?;
        Ok(Self { resolver, limit, probed: Mutex::new(None) })
    }

    /// The addresses in the records of one type, none if the name has no such record.
    async fn records(&self, name: Name, record_type: RecordType) -> Result<Vec<IpAddr>, ResolveFault> {
        let lookup = match self.resolver.lookup(name, record_type).await {
            Ok(lookup) => lookup,
            Err(error) if is_absence(&error) => return Ok(Vec::new()),
            Err(error) => return Err(fault(&error)),
        };
        let addresses = lookup.answers().iter().filter_map(|record| match &record.data {
            RData::A(address) => Some(IpAddr::V4(address.0)),
            RData::AAAA(address) => Some(IpAddr::V6(address.0)),
            _ => None,
        });
        Ok(addresses.collect())
    }
}

#[async_trait]
impl Resolve for DnsResolver {
    async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, ResolveFault> {
        let mut name = Name::from_ascii(name).map_err(|error| ResolveFault::Failed(error.to_string()))?;
        name.set_fqdn(true);
        let both = async {
            tokio::try_join!(self.records(name.clone(), RecordType::A), self.records(name, RecordType::AAAA))
        };
        let (mut addresses, addresses_v6) =
            timeout(self.limit, both).await.map_err(|_| ResolveFault::TimedOut)??;
        addresses.extend(addresses_v6);
        if addresses.is_empty() { Err(ResolveFault::NoRecords) } else { Ok(addresses) }
    }

    /// Asks as every other program here does: private names stand in host files and behind search domains.
    async fn private_addresses(&self, name: &str) -> Result<Vec<IpAddr>, ResolveFault> {
        let found = timeout(self.limit, tokio::net::lookup_host((name, 0))).await;
        match found.map_err(|_| ResolveFault::TimedOut)? {
            Ok(found) => Ok(found.map(|address| address.ip()).collect()),
            Err(_) => Err(ResolveFault::NoRecords),
        }
    }

    async fn is_away(&self) -> bool {
        let mut probed = self.probed.lock().await;
        if let Some((at, is_away)) = *probed
            && at.elapsed() < PROBE_KEPT
        {
            return is_away;
        }
        let answer = timeout(probe_limit(self.limit), self.addresses(PROBE_NAME)).await;
        let is_away = !matches!(answer, Ok(Ok(_) | Err(ResolveFault::NoRecords)));
        if is_away {
            tracing::warn!("our name servers do not answer: notifications to host names wait");
        }
        *probed = Some((Instant::now(), is_away));
        is_away
    }
}

fn options(limit: Duration) -> ResolverOpts {
    let mut options = ResolverOpts::default();
    options.attempts = usize::from(REPETITIONS);
    options.timeout = limit / (u32::from(REPETITIONS) + 1);
    options.use_hosts_file = ResolveHosts::Never;
    options.max_active_requests = TCP_QUESTIONS_MAX;
    options.cache_size = 0;
    options.positive_max_ttl = Some(Duration::ZERO);
    options.negative_max_ttl = Some(Duration::ZERO);
    options
}

/// A server over UDP, and over TCP for answers that are too long for UDP.
fn plain(nameserver: &SocketAddr) -> NameServerConfig {
    let connection = |protocol| {
        let mut connection = ConnectionConfig::new(protocol);
        connection.port = nameserver.port();
        connection
    };
    let connections = vec![connection(ProtocolConfig::Udp), connection(ProtocolConfig::Tcp)];
    NameServerConfig::new(nameserver.ip(), true, connections)
}

/// Takes only the servers from the system's configuration: its search domains must not complete a name.
fn system_nameservers() -> Vec<NameServerConfig> {
    match read_system_conf() {
        Ok((config, _)) => config.name_servers,
        Err(error) => {
            tracing::warn!(%error, nameserver = %NAMESERVER_DEFAULT, "no name server is configured on this system");
            vec![plain(&NAMESERVER_DEFAULT)]
        }
    }
}

/// Whether the server answered that there is no such record; a failure is no such answer.
fn is_absence(error: &NetError) -> bool {
    matches!(error, NetError::Dns(DnsError::NoRecordsFound(absence))
        if matches!(absence.response_code, ResponseCode::NXDomain | ResponseCode::NoError))
}

fn fault(error: &NetError) -> ResolveFault {
    match error {
        NetError::Timeout => ResolveFault::TimedOut,
        other => ResolveFault::Failed(other.to_string()),
    }
}

/// How long the probe may take where a name may take so long.
fn probe_limit(limit: Duration) -> Duration {
    limit * PROBE_FIFTHS / 5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_the_probe_leave_time_to_the_exchange() {
        for (exchange, limit, probe) in [(20, 5_000, 2_000), (10, 5_000, 2_000), (4, 2_000, 800)] {
            let within = DnsResolver::limit_within(Duration::from_secs(exchange));
            let limits = (Duration::from_millis(limit), Duration::from_millis(probe));
            assert_eq!((within, probe_limit(within)), limits, "{exchange} s");
        }
    }
}
