-- Addresses to which events are sent. Each secret is sealed like credentials.
CREATE TABLE platform_webhooks (
    id              text   PRIMARY KEY,
    user_id         bigint REFERENCES platform_users (id) ON DELETE CASCADE,      -- NULL: of a workspace
    workspace_id    bigint REFERENCES platform_workspaces (id) ON DELETE CASCADE, -- NULL: of the personal workspace of user_id
    url             text   NOT NULL,
    events          text   NOT NULL, -- types or patterns such as build.*, separated by spaces
    sealed          bytea  NOT NULL, -- JSON: the secrets and when they end
    data_key        bytea  NOT NULL,
    key_id          text   NOT NULL,
    created_by      bigint NOT NULL,
    created_at      bigint NOT NULL,
    updated_at      bigint NOT NULL,
    disabled_at     bigint NOT NULL DEFAULT 0,  -- 0: enabled
    disabled_reason text   NOT NULL DEFAULT '', -- '': by a user
    failing_since   bigint NOT NULL DEFAULT 0,  -- 0: the last message was accepted
    failures        bigint NOT NULL DEFAULT 0,  -- consecutive failed attempts
    retry_at        bigint NOT NULL DEFAULT 0,  -- after failures, nothing but tests is sent before
    CHECK ((user_id IS NULL) <> (workspace_id IS NULL))
);
CREATE INDEX platform_webhooks_by_user ON platform_webhooks (user_id);
CREATE INDEX platform_webhooks_by_workspace ON platform_webhooks (workspace_id);
CREATE INDEX platform_webhooks_by_key ON platform_webhooks (key_id);

-- Messages to webhooks. Those of one subject are sent in the order of their creation.
CREATE TABLE platform_deliveries (
    id           text   PRIMARY KEY,
    webhook_id   text   NOT NULL REFERENCES platform_webhooks (id) ON DELETE CASCADE,
    event_id     text   NOT NULL,
    type         text   NOT NULL,
    subject      text   NOT NULL,
    body         text   NOT NULL, -- JSON: a CloudEvent
    state        text   NOT NULL, -- PENDING, DELIVERED or FAILED
    created_at   bigint NOT NULL, -- when the event happened
    attempts     bigint NOT NULL DEFAULT 0,
    first_at     bigint NOT NULL DEFAULT 0,  -- the first attempt; 0: none yet
    last_at      bigint NOT NULL DEFAULT 0,
    next_at      bigint NOT NULL DEFAULT 0,  -- while the state is PENDING
    busy_until   bigint NOT NULL DEFAULT 0,  -- a replica makes an attempt until this time
    response     bigint NOT NULL DEFAULT 0,  -- HTTP status of the last response; 0: none
    problem      text   NOT NULL DEFAULT '', -- of the last attempt
    duration     bigint NOT NULL DEFAULT 0,  -- of the last attempt, in microseconds
    completed_at bigint NOT NULL DEFAULT 0,  -- 0: not yet
    UNIQUE (webhook_id, event_id)
);
CREATE INDEX platform_deliveries_by_time ON platform_deliveries (webhook_id, created_at, id);
CREATE INDEX platform_deliveries_pending ON platform_deliveries (webhook_id, next_at) WHERE state = 'PENDING';
CREATE INDEX platform_deliveries_by_subject ON platform_deliveries (webhook_id, subject, created_at) WHERE state = 'PENDING';
CREATE INDEX platform_deliveries_ended ON platform_deliveries (completed_at) WHERE completed_at > 0;
