-- Roles that wait for the first sign-in with an e-mail address that no user has yet. They have a table of
-- their own, so that nothing that reads users, members or participants can take one for a user.
CREATE TABLE platform_invitations (
    id           bigint PRIMARY KEY, -- of the same random ids as those of members and participants
    org_id       bigint NOT NULL REFERENCES platform_orgs (id) ON DELETE CASCADE,
    workspace_id bigint REFERENCES platform_workspaces (id) ON DELETE CASCADE, -- NULL: the organisation itself
    email        text   NOT NULL, -- with ASCII letters in lower case
    role         text   NOT NULL, -- as in platform_members, or as in platform_participants
    inviter_id   bigint NOT NULL, -- the user who granted the role; the user may be deleted
    invited_by   text   NOT NULL, -- the name of this user
    created_at   bigint NOT NULL,
    expires_at   bigint NOT NULL
);
CREATE UNIQUE INDEX platform_invitations_by_place ON platform_invitations (org_id, (coalesce(workspace_id, 0)), email);
CREATE INDEX platform_invitations_by_email ON platform_invitations (email);
CREATE INDEX platform_invitations_by_workspace ON platform_invitations (workspace_id);
CREATE INDEX platform_invitations_by_expiry ON platform_invitations (expires_at);

-- Users whom a user has removed, so that older invitations of other addresses do not bring them back.
CREATE TABLE platform_removals (
    user_id      bigint NOT NULL REFERENCES platform_users (id) ON DELETE CASCADE,
    org_id       bigint NOT NULL REFERENCES platform_orgs (id) ON DELETE CASCADE,
    workspace_id bigint REFERENCES platform_workspaces (id) ON DELETE CASCADE, -- NULL: the organisation itself
    removed_at   bigint NOT NULL
);
CREATE INDEX platform_removals_by_user ON platform_removals (user_id);
CREATE INDEX platform_removals_by_org ON platform_removals (org_id);
CREATE INDEX platform_removals_by_workspace ON platform_removals (workspace_id);
CREATE INDEX platform_removals_by_time ON platform_removals (removed_at);
