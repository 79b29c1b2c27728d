//! What the servers of the gates say of themselves.

use jiff::{SignedDuration, Timestamp};
use redis::cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo};
use redis::cmd;

use crate::Error;
use crate::connection::{Gate, read};

/// A primary, as it describes itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Primary {
    /// `valkey` or `redis`.
    pub engine: String,
    /// The engine's own version, `8.0.1`.
    pub version: String,
    /// What it does when its memory is full: `noeviction`, or it forgets.
    pub eviction: String,
    /// Replicas that are connected and up to date.
    pub replicas: usize,
}

impl Primary {
    /// The first number of the version; 0 if it has none.
    pub fn major(&self) -> u32 {
        let first = self.version.split('.').next();
        first.and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    /// Reads the answer to `INFO`.
    fn parse(info: &str) -> Self {
        let field = |name: &str| {
            let mut lines = info.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        };
        let text = |name: &str| field(name).unwrap_or_default().trim().to_owned();
        // Valkey tells the version of Redis that it is compatible with, too.
        let (engine, version) = match field("valkey_version") {
            Some(version) => ("valkey", version.trim().to_owned()),
            None => ("redis", text("redis_version")),
        };
        let replica = |line: &&str| {
            let name = line
                .strip_prefix("slave")
                .and_then(|rest| rest.split(':').next());
            name.is_some_and(|number| number.parse::<u32>().is_ok())
                && line.contains("state=online")
        };
        Self {
            engine: engine.to_owned(),
            version,
            eviction: text("maxmemory_policy"),
            replicas: info.lines().filter(replica).count(),
        }
    }
}

impl Gate {
    /// All primaries that can be reached. One that can't be is left out, and
    /// missing from the number of [`Gate::primaries`].
    ///
    /// # Errors
    /// No answer.
    pub async fn describe(&self) -> Result<Vec<Primary>, Error> {
        let everyone = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
        let answers = self.route(cmd("INFO"), everyone).await?;
        let answers = answers.into_map_iter().map_err(|_| unreadable())?;
        answers
            .map(|(_, info)| Ok(Primary::parse(&read::<String>(info)?)))
            .collect()
    }

    /// What a primary's clock says.
    ///
    /// # Errors
    /// No answer.
    pub async fn time(&self) -> Result<Timestamp, Error> {
        let (seconds, micros): (i64, i64) = self.ask_any(cmd("TIME")).await?;
        let second = Timestamp::from_second(seconds).map_err(|_| unreadable())?;
        Ok(second + SignedDuration::from_micros(micros))
    }
}

fn unreadable() -> Error {
    Error::Unavailable("an answer of another shape".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_known_by_its_own_version() {
        let redis = "# Server\r\nredis_version:7.0.15\r\nredis_mode:cluster\r\n\
                     # Memory\r\nmaxmemory_policy:noeviction\r\n\
                     # Replication\r\nrole:master\r\nconnected_slaves:3\r\n\
                     slave0:ip=127.0.0.1,port=1,state=online,offset=9,lag=0\r\n\
                     slave1:ip=127.0.0.1,port=2,state=wait_bgsave,offset=0,lag=0\r\n\
                     slave12:ip=127.0.0.1,port=3,state=online,offset=9,lag=1\r\n\
                     slave_expires_tracked_keys:0\r\n";
        let described = Primary::parse(redis);
        assert_eq!(
            described,
            Primary {
                engine: "redis".to_owned(),
                version: "7.0.15".to_owned(),
                eviction: "noeviction".to_owned(),
                replicas: 2,
            }
        );
        assert_eq!(described.major(), 7);
        let valkey = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n\
                      maxmemory_policy:volatile-lru\r\n";
        let described = Primary::parse(valkey);
        assert_eq!(
            (described.engine.as_str(), described.major()),
            ("valkey", 8)
        );
        assert_eq!(described.eviction, "volatile-lru");
        assert_eq!(described.replicas, 0);
        let nothing = Primary::parse("");
        assert_eq!((nothing.major(), nothing.eviction.as_str()), (0, ""));
    }
}
