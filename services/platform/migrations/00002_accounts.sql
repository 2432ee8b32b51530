-- +goose Up
ALTER TABLE platform_users ADD COLUMN first_name text NOT NULL DEFAULT '';
ALTER TABLE platform_users ADD COLUMN last_name text NOT NULL DEFAULT '';
ALTER TABLE platform_users ADD COLUMN organization text NOT NULL DEFAULT '';
ALTER TABLE platform_users ADD COLUMN updated_at bigint NOT NULL DEFAULT 0;

ALTER TABLE platform_tokens ADD COLUMN expires_at bigint NOT NULL DEFAULT 0; -- 0: never
ALTER TABLE platform_tokens ADD COLUMN used_at bigint NOT NULL DEFAULT 0;    -- to ten minutes; 0: never
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
    org_id      bigint NOT NULL REFERENCES platform_orgs (id), -- an organisation in use stays
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

-- Secrets are sealed with a data key of the record's own, which the master key
-- key_id wraps.
CREATE TABLE platform_credentials (
    id           text   PRIMARY KEY,
    user_id      bigint NOT NULL, -- whose personal workspace; 0: workspace_id's
    workspace_id bigint NOT NULL, -- 0: user_id's personal one
    name         text   NOT NULL,
    name_key     text   NOT NULL,
    description  text   NOT NULL,
    provider     text   NOT NULL,
    base_url     text   NOT NULL,
    registry     text   NOT NULL, -- host or host/path; '' where it is none
    public_keys  text   NOT NULL, -- JSON without what is secret
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

-- Who did what with secrets. Rows are only ever added.
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
