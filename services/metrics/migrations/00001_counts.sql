CREATE TABLE metrics_counts (
    metric text   NOT NULL, -- builds, pulls or filesystem
    day    text   NOT NULL, -- yyyy-mm-dd, UTC; '': sum of all days
    org    text   NOT NULL, -- '': events without an organisation
    events bigint NOT NULL,
    PRIMARY KEY (metric, day, org)
);

-- The last counted event of each source, by which repeated events are recognized.
CREATE TABLE metrics_sources (
    source     text   PRIMARY KEY,
    last       bigint NOT NULL, -- ordinal of the last counted event
    counted_at bigint NOT NULL
);
