-- Whether a role comes from a group at the sign-in provider. Such roles follow the groups at
-- each sign-in; others are only changed by people.
ALTER TABLE platform_users ADD COLUMN administrator_by_group boolean NOT NULL DEFAULT false;
ALTER TABLE platform_members ADD COLUMN by_group boolean NOT NULL DEFAULT false;
ALTER TABLE platform_participants ADD COLUMN by_group boolean NOT NULL DEFAULT false;
