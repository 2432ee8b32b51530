-- +goose Up
-- By which it is estimated how long builds of a kind will take.
CREATE INDEX build_builds_lengths ON build_builds (engine, architecture, completed_at)
    WHERE state = 'COMPLETED' AND succeeded AND started_at > 0;
