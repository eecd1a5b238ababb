//! Telemetry, shutdown, retry, clock, config. Names no noun of ours.
