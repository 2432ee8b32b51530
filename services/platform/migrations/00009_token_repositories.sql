-- The repositories that a token may name, separated by spaces; '': all.
ALTER TABLE platform_tokens ADD COLUMN repositories text NOT NULL DEFAULT '';
ALTER TABLE platform_robot_tokens ADD COLUMN repositories text NOT NULL DEFAULT '';
