-- For reports of usage: the organisation of a robot that owns the build; 0 for a user.
ALTER TABLE build_builds ADD COLUMN robot_org_id bigint NOT NULL DEFAULT 0;

-- The number under which the duration of an ended build is reported to the metrics service; 0 not
-- yet; -1 never: the build ended before durations were reported.
ALTER TABLE build_builds ADD COLUMN measured bigint NOT NULL DEFAULT 0;
UPDATE build_builds SET measured = -1 WHERE state = 'COMPLETED';
CREATE INDEX build_builds_unmeasured ON build_builds (completed_at, id)
    WHERE measured = 0 AND state = 'COMPLETED' AND started_at > 0;
CREATE INDEX build_builds_measured ON build_builds (measured) WHERE measured > 0;

-- One row: how far the numbers of durations go, and how far the bus has them. The table
-- build_counting cannot have it: earlier releases expect a single row there.
CREATE TABLE build_measuring (
    id        bigint PRIMARY KEY, -- 1
    source    text   NOT NULL,    -- the name under which the metrics service knows the numbers
    numbered  bigint NOT NULL,
    published bigint NOT NULL
);
