-- Counting a user's builds reads the index only, and not a row for each build.
DROP INDEX IF EXISTS build_builds_by_user;
CREATE INDEX build_builds_by_user ON build_builds (endpoint, user_id, created_at, workspace_id, restriction);
