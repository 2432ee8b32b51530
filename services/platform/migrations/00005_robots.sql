-- Accounts without a person. They have tables of their own, so that nothing that lists, changes or signs in
-- users can find them, neither in this release nor in the previous one.
CREATE TABLE platform_robots (
    id           bigint PRIMARY KEY, -- of the same random ids as those of users
    org_id       bigint NOT NULL REFERENCES platform_orgs (id) ON DELETE CASCADE,
    workspace_id bigint REFERENCES platform_workspaces (id) ON DELETE CASCADE, -- NULL: all of the organisation
    name         text   NOT NULL,
    role         text   NOT NULL, -- launch, connect or view, in the workspace or in each of the organisation
    created_by   text   NOT NULL, -- the name of a user, who may be deleted
    created_at   bigint NOT NULL
);
CREATE UNIQUE INDEX platform_robots_by_name ON platform_robots (org_id, (coalesce(workspace_id, 0)), name);
CREATE INDEX platform_robots_by_workspace ON platform_robots (workspace_id);

CREATE TABLE platform_robot_tokens (
    id          bigint PRIMARY KEY,
    robot_id    bigint NOT NULL REFERENCES platform_robots (id) ON DELETE CASCADE,
    name        text   NOT NULL,
    secret_hash bytea  NOT NULL,
    scopes      text   NOT NULL CHECK (scopes <> ''), -- separated by spaces
    created_at  bigint NOT NULL,
    expires_at  bigint NOT NULL DEFAULT 0, -- 0: never
    used_at     bigint NOT NULL DEFAULT 0, -- rounded to ten minutes; 0: never
    used_from   text   NOT NULL DEFAULT '',
    UNIQUE (robot_id, name)
);
