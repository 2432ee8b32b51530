-- +goose Up
-- When its turn came to be counted: 0 not yet, else the build's number for the
-- metrics room; -1 is never (an index, or an image that was found).
ALTER TABLE build_builds ADD COLUMN counted bigint NOT NULL DEFAULT 0;
UPDATE build_builds SET counted = -1 WHERE engine = 'index' OR (succeeded AND started_at = 0);
CREATE INDEX build_builds_uncounted ON build_builds (created_at) WHERE counted = 0;
CREATE INDEX build_builds_counted ON build_builds (counted) WHERE counted > 0;

-- One row: how far the numbers go, and how far the bus has them.
CREATE TABLE build_counting (
    id        bigint PRIMARY KEY, -- 1
    source    text   NOT NULL,    -- the name under which the metrics room knows the numbers
    numbered  bigint NOT NULL,
    published bigint NOT NULL
);
