-- +goose Up
-- What lists look for, so that they read no documents: words, and keywords.
CREATE INDEX platform_workflows_by_search ON platform_workflows (workspace_id, space_user, submitted_at, id, status, user_name, search);
CREATE INDEX platform_workflows_by_name ON platform_workflows (workspace_id, space_user, submitted_at, id, run_name, session_id, project_name);
DROP INDEX platform_workflows_by_space;
