-- Limits of single organisations, workspaces and users. Exactly one of the ids is set.
CREATE TABLE platform_limits (
    subject      text   NOT NULL, -- its category and id, e.g. organization/12
    kind         text   NOT NULL,
    value        text   NOT NULL, -- e.g. 250/1h; 0: no limit
    org_id       bigint REFERENCES platform_orgs (id) ON DELETE CASCADE,
    workspace_id bigint REFERENCES platform_workspaces (id) ON DELETE CASCADE,
    user_id      bigint REFERENCES platform_users (id) ON DELETE CASCADE,
    updated_at   bigint NOT NULL,
    PRIMARY KEY (subject, kind)
);
CREATE INDEX platform_limits_by_org ON platform_limits (org_id);
CREATE INDEX platform_limits_by_workspace ON platform_limits (workspace_id);
CREATE INDEX platform_limits_by_user ON platform_limits (user_id);
