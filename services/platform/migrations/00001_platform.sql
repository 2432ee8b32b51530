CREATE TABLE platform_users (
    id           bigint PRIMARY KEY,
    user_name    text   NOT NULL UNIQUE,
    email        text   NOT NULL UNIQUE,
    first_name   text   NOT NULL DEFAULT '',
    last_name    text   NOT NULL DEFAULT '',
    organization text   NOT NULL DEFAULT '',
    created_at   bigint NOT NULL,
    updated_at   bigint NOT NULL DEFAULT 0,
    disabled_at  bigint NOT NULL DEFAULT 0 -- 0: not disabled
);

CREATE TABLE platform_tokens (
    id          bigint PRIMARY KEY,
    user_id     bigint NOT NULL REFERENCES platform_users (id),
    name        text   NOT NULL,
    secret_hash bytea  NOT NULL,
    created_at  bigint NOT NULL,
    expires_at  bigint NOT NULL DEFAULT 0, -- 0: never
    used_at     bigint NOT NULL DEFAULT 0  -- rounded to ten minutes; 0: never
);
CREATE INDEX platform_tokens_by_user ON platform_tokens (user_id);

CREATE TABLE platform_orgs (
    id          bigint PRIMARY KEY,
    name        text   NOT NULL,
    name_key    text   NOT NULL UNIQUE, -- in lower case
    full_name   text   NOT NULL,
    description text   NOT NULL,
    location    text   NOT NULL,
    website     text   NOT NULL,
    created_at  bigint NOT NULL
);

CREATE TABLE platform_members (
    id         bigint PRIMARY KEY,
    org_id     bigint NOT NULL REFERENCES platform_orgs (id) ON DELETE CASCADE,
    user_id    bigint NOT NULL REFERENCES platform_users (id) ON DELETE CASCADE,
    role       text   NOT NULL, -- owner or member
    created_at bigint NOT NULL,
    UNIQUE (org_id, user_id)
);
CREATE INDEX platform_members_by_user ON platform_members (user_id);

CREATE TABLE platform_workspaces (
    id          bigint PRIMARY KEY,
    org_id      bigint NOT NULL REFERENCES platform_orgs (id), -- an organisation with workspaces cannot be deleted
    name        text   NOT NULL,
    name_key    text   NOT NULL,
    full_name   text   NOT NULL,
    description text   NOT NULL,
    visibility  text   NOT NULL, -- PRIVATE or SHARED
    created_at  bigint NOT NULL,
    updated_at  bigint NOT NULL,
    UNIQUE (org_id, name_key)
);

CREATE TABLE platform_participants (
    id           bigint PRIMARY KEY,
    workspace_id bigint NOT NULL REFERENCES platform_workspaces (id) ON DELETE CASCADE,
    user_id      bigint NOT NULL REFERENCES platform_users (id) ON DELETE CASCADE,
    role         text   NOT NULL, -- owner, admin, maintain, launch, connect or view
    created_at   bigint NOT NULL,
    UNIQUE (workspace_id, user_id)
);
CREATE INDEX platform_participants_by_user ON platform_participants (user_id);

-- Each secret is sealed with a data key of its own, which the master key with key_id wraps.
CREATE TABLE platform_credentials (
    id           text   PRIMARY KEY,
    user_id      bigint NOT NULL, -- owner of the personal workspace; 0: workspace_id applies
    workspace_id bigint NOT NULL, -- 0: the personal workspace of user_id
    name         text   NOT NULL,
    name_key     text   NOT NULL,
    description  text   NOT NULL,
    provider     text   NOT NULL,
    base_url     text   NOT NULL,
    registry     text   NOT NULL, -- host or host/path; '': not for a registry
    public_keys  text   NOT NULL, -- JSON without secrets
    sealed       bytea  NOT NULL,
    data_key     bytea  NOT NULL,
    key_id       text   NOT NULL,
    created_by   bigint NOT NULL,
    created_at   bigint NOT NULL,
    updated_at   bigint NOT NULL,
    used_at      bigint NOT NULL, -- 0: never
    UNIQUE (user_id, workspace_id, name_key)
);
CREATE INDEX platform_credentials_by_key ON platform_credentials (key_id);

-- Events of the audit log. Rows are never updated.
CREATE TABLE platform_audit (
    id           bigint PRIMARY KEY,
    at           bigint NOT NULL,
    user_id      bigint NOT NULL,
    workspace_id bigint NOT NULL,
    action       text   NOT NULL,
    subject      text   NOT NULL,
    request_id   text   NOT NULL
);
CREATE INDEX platform_audit_by_time ON platform_audit (at);

CREATE TABLE platform_pairings (
    id         text   PRIMARY KEY,
    public_key bytea  NOT NULL, -- PKCS #1, DER
    operator   text   NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL
);

CREATE TABLE platform_workflows (
    id           text   PRIMARY KEY,
    user_id      bigint NOT NULL, -- the user who reports the run
    workspace_id bigint NOT NULL, -- 0: the user's personal workspace
    space_user   bigint NOT NULL, -- user_id in the personal workspace, else 0
    status       text   NOT NULL, -- SUBMITTED, RUNNING, SUCCEEDED, FAILED or CANCELLED
    run_name     text   NOT NULL,
    session_id   text   NOT NULL,
    project_name text   NOT NULL,
    user_name    text   NOT NULL, -- as reported by the run
    search       text   NOT NULL, -- searchable text in lower case
    submitted_at bigint NOT NULL,
    completed_at bigint NOT NULL, -- 0: not yet
    heartbeat_at bigint NOT NULL,
    created_at   bigint NOT NULL,
    updated_at   bigint NOT NULL,
    document     text   NOT NULL, -- JSON: the run as reported
    launch       text   NOT NULL, -- JSON; '': nothing
    metrics      text   NOT NULL  -- JSON; '': nothing
);
-- These indexes cover the searches for words and for keywords, so that lists read no
-- documents.
CREATE INDEX platform_workflows_by_search ON platform_workflows (workspace_id, space_user, submitted_at, id, status, user_name, search);
CREATE INDEX platform_workflows_by_name ON platform_workflows (workspace_id, space_user, submitted_at, id, run_name, session_id, project_name);

-- The task counts of a run, updated with each report of its tasks.
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
    search       text   NOT NULL, -- searchable text in lower case
    submitted_at bigint NOT NULL, -- this and the next two as reported by the run; 0: not yet
    started_at   bigint NOT NULL,
    completed_at bigint NOT NULL,
    created_at   bigint NOT NULL,
    updated_at   bigint NOT NULL,
    document     text   NOT NULL, -- JSON: the task as reported
    PRIMARY KEY (workflow_id, task_id)
);

-- Codes that are exchanged once: for tokens, or for a user's consent to a program. See
-- services/platform/identity/store_codes.go.
CREATE TABLE platform_codes (
    code_hash     bytea  PRIMARY KEY,
    kind          text   NOT NULL,
    user_id       bigint NOT NULL REFERENCES platform_users (id) ON DELETE CASCADE,
    token_id      bigint NOT NULL, -- the access token of the sign-in; 0: at the provider
    client_id     text   NOT NULL,
    redirect_uri  text   NOT NULL,
    challenge     text   NOT NULL,
    program_state text   NOT NULL, -- returned to the program with its code
    user_hash     bytea,           -- of the device that a consent is for; NULL: a program
    expires_at    bigint NOT NULL
);

-- A sign-in with its chain of refresh tokens, which are valid while the row exists. It ends
-- with the access token that it began with, or when its code is used twice (RFC 6749, 4.1.2).
CREATE TABLE platform_sessions (
    id           bigint PRIMARY KEY,
    user_id      bigint NOT NULL REFERENCES platform_users (id) ON DELETE CASCADE,
    token_id     bigint NOT NULL, -- the access token of the sign-in; 0: at the provider
    client_id    text   NOT NULL,
    code_hash    bytea,           -- of the code that began the session
    refresh_hash bytea  NOT NULL, -- of the newest refresh token
    created_at   bigint NOT NULL,
    used_at      bigint NOT NULL, -- when the session last got new tokens
    expires_at   bigint NOT NULL
);
CREATE INDEX platform_sessions_by_user ON platform_sessions (user_id);
CREATE INDEX platform_sessions_by_token ON platform_sessions (token_id);
CREATE INDEX platform_sessions_by_code ON platform_sessions (code_hash);

-- Tokens of users of other platforms, which the platform uses on their behalf.
CREATE TABLE platform_grants (
    id         text   PRIMARY KEY, -- hash of the endpoint and of the token that the client sends
    endpoint   text   NOT NULL,
    user_id    bigint NOT NULL,    -- at that platform; 0: not known yet
    sealed     bytea  NOT NULL,
    data_key   bytea  NOT NULL,
    key_id     text   NOT NULL,
    renewed_at bigint NOT NULL,    -- version of the tokens; 0: as the client sent them
    busy_until bigint NOT NULL,    -- a replica refreshes the tokens until this time
    used_at    bigint NOT NULL     -- rounded to ten minutes
);
CREATE INDEX platform_grants_by_user ON platform_grants (endpoint, user_id, used_at);

-- The key pair of this platform's pairing with each other platform.
CREATE TABLE platform_peers (
    id         text   PRIMARY KEY, -- the endpoint
    pairing    text   NOT NULL,
    sealed     bytea  NOT NULL,
    data_key   bytea  NOT NULL,
    key_id     text   NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL
);

-- Sign-ins at the OIDC provider that have not finished.
CREATE TABLE platform_sign_ins (
    state_hash    bytea  PRIMARY KEY,
    client_id     text   NOT NULL,
    redirect_uri  text   NOT NULL,
    challenge     text   NOT NULL,
    program_state text   NOT NULL,
    nonce         text   NOT NULL,
    verifier      text   NOT NULL,
    expires_at    bigint NOT NULL
);

-- The subject that each user signed in as at an OIDC provider.
CREATE TABLE platform_logins (
    issuer     text   NOT NULL,
    subject    text   NOT NULL,
    user_id    bigint NOT NULL REFERENCES platform_users (id) ON DELETE CASCADE,
    created_at bigint NOT NULL,
    PRIMARY KEY (issuer, subject)
);
-- One subject per user and issuer: providers assign the address of a deleted account to another
-- person, who must not get the first person's account.
CREATE UNIQUE INDEX platform_logins_by_user ON platform_logins (user_id, issuer);

-- Device sign-ins whose code has not been entered yet. A row of platform_codes replaces the
-- row once the user has entered the code.
CREATE TABLE platform_devices (
    device_hash bytea  PRIMARY KEY,
    user_hash   bytea  NOT NULL UNIQUE, -- of the code that the program displays
    client_id   text   NOT NULL,
    pause       bigint NOT NULL,           -- minimum interval between two polls, in seconds
    asked_at    bigint NOT NULL DEFAULT 0, -- time of the last poll
    expires_at  bigint NOT NULL
);
