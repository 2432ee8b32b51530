-- +goose Up
CREATE TABLE platform_workflows (
    id           text   PRIMARY KEY,
    user_id      bigint NOT NULL, -- who reports it
    workspace_id bigint NOT NULL, -- 0: the user's personal one
    space_user   bigint NOT NULL, -- user_id in the personal workspace, else 0
    status       text   NOT NULL, -- SUBMITTED, RUNNING, SUCCEEDED, FAILED or CANCELLED
    run_name     text   NOT NULL,
    session_id   text   NOT NULL,
    project_name text   NOT NULL,
    user_name    text   NOT NULL, -- as the run says
    search       text   NOT NULL, -- what is searched for, in lower case
    submitted_at bigint NOT NULL,
    completed_at bigint NOT NULL, -- 0: not yet
    heartbeat_at bigint NOT NULL,
    created_at   bigint NOT NULL,
    updated_at   bigint NOT NULL,
    document     text   NOT NULL, -- JSON: what the run said of itself
    launch       text   NOT NULL, -- JSON; '': nothing
    metrics      text   NOT NULL  -- JSON; '': nothing
);
CREATE INDEX platform_workflows_by_space ON platform_workflows (workspace_id, space_user, submitted_at);

-- The counts of a run, kept as its tasks come in.
CREATE TABLE platform_progress (
    workflow_id text PRIMARY KEY REFERENCES platform_workflows (id) ON DELETE CASCADE,
    counts      text NOT NULL -- JSON
);

CREATE TABLE platform_tasks (
    workflow_id  text   NOT NULL REFERENCES platform_workflows (id) ON DELETE CASCADE,
    task_id      bigint NOT NULL,
    status       text   NOT NULL,
    name         text   NOT NULL,
    process      text   NOT NULL,
    search       text   NOT NULL, -- what is searched for, in lower case
    submitted_at bigint NOT NULL, -- times as the run says; 0: not yet
    started_at   bigint NOT NULL,
    completed_at bigint NOT NULL,
    created_at   bigint NOT NULL,
    updated_at   bigint NOT NULL,
    document     text   NOT NULL, -- JSON: what the run said of it
    PRIMARY KEY (workflow_id, task_id)
);
