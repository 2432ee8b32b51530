-- Events of builds that are not on the bus yet.
CREATE TABLE build_events (
    build_id text   NOT NULL,
    type     text   NOT NULL, -- build.started, build.succeeded or build.failed
    at       bigint NOT NULL,
    PRIMARY KEY (build_id, type)
);
CREATE INDEX build_events_by_time ON build_events (at);

-- Builds wait in a queue of their owner and workspace.
DROP INDEX IF EXISTS build_builds_waiting;
CREATE INDEX build_builds_waiting ON build_builds (owner, workspace_id, created_at, id, engine)
    WHERE state = 'PENDING' AND published_at = 0 AND solve_at = 0;
