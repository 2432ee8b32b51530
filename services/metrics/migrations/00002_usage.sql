-- Usage by day, user and workspace, for reports.
CREATE TABLE metrics_usage (
    day          text   NOT NULL, -- yyyy-mm-dd, UTC
    user_id      bigint NOT NULL, -- of this platform; 0: anonymous callers and users of other platforms
    workspace_id bigint NOT NULL, -- 0: the personal workspace, or no user
    metric       text   NOT NULL, -- builds, build_seconds, pulls or filesystem
    robot_org_id bigint NOT NULL, -- the organisation of a robot; 0: a user
    amount       bigint NOT NULL,
    PRIMARY KEY (day, user_id, workspace_id, metric)
);
CREATE INDEX metrics_usage_by_user ON metrics_usage (user_id, day);
CREATE INDEX metrics_usage_by_workspace ON metrics_usage (workspace_id, day);
