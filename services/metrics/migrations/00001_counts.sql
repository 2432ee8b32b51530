-- +goose Up
CREATE TABLE metrics_counts (
    metric text   NOT NULL, -- builds, pulls or filesystem
    day    text   NOT NULL, -- yyyy-mm-dd, UTC; '': all days together
    org    text   NOT NULL, -- '': events without an organisation
    events bigint NOT NULL,
    PRIMARY KEY (metric, day, org)
);

-- How far the events of each source are counted: what comes again is known by it.
CREATE TABLE metrics_sources (
    source     text   PRIMARY KEY,
    last       bigint NOT NULL, -- ordinal of the last event that was counted
    counted_at bigint NOT NULL
);
