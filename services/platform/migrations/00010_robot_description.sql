ALTER TABLE platform_robots ADD COLUMN description text NOT NULL DEFAULT '';
