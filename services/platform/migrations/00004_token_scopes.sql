ALTER TABLE platform_tokens ADD COLUMN scopes text NOT NULL DEFAULT '';         -- separated by spaces; '': all rights of the user
ALTER TABLE platform_tokens ADD COLUMN workspace_id bigint NOT NULL DEFAULT 0;  -- the only workspace; 0: all
ALTER TABLE platform_tokens ADD COLUMN used_from text NOT NULL DEFAULT '';      -- the client's address at used_at
-- The hash of the secret of a token with scopes or of one workspace, whose secret_hash is empty. The
-- previous release, which does not know scopes, only reads secret_hash and so rejects the token.
ALTER TABLE platform_tokens ADD COLUMN restricted_hash bytea;
