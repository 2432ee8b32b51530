-- A hash of the repositories that the access token of the request is restricted to; '': all.
ALTER TABLE build_builds ADD COLUMN restriction text NOT NULL DEFAULT '';
