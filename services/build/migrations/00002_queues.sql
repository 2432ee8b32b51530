-- The queues are read often. These indexes have all columns that choose the next builds,
-- because reading rows with long requests takes longer.
DROP INDEX IF EXISTS build_builds_unsolved;
CREATE INDEX build_builds_unsolved ON build_builds (owner, created_at, id, endpoint, solve_at) WHERE state = 'PENDING' AND solve_at > 0;
CREATE INDEX build_builds_waiting ON build_builds (owner, created_at, id, engine)
    WHERE state = 'PENDING' AND published_at = 0 AND solve_at = 0;
CREATE INDEX build_builds_published ON build_builds (published_at) WHERE state = 'PENDING' AND published_at > 0;
