-- OpenVEX documents of users and organisations.
CREATE TABLE platform_vex (
    user_id    bigint REFERENCES platform_users (id) ON DELETE CASCADE, -- NULL: of an organisation
    org_id     bigint REFERENCES platform_orgs (id) ON DELETE CASCADE,  -- NULL: of a user
    name       text   NOT NULL,
    content    text   NOT NULL,
    digest     text   NOT NULL, -- of content, SHA-256 in hex
    size       bigint NOT NULL, -- of content in bytes
    statements bigint NOT NULL, -- their number
    products   bigint NOT NULL, -- the number of products, components and vulnerabilities
    updated_at bigint NOT NULL,
    updated_by text   NOT NULL, -- the name of the user who set the document
    CHECK ((user_id IS NULL) <> (org_id IS NULL))
);
CREATE UNIQUE INDEX platform_vex_by_user ON platform_vex (user_id, name) WHERE user_id IS NOT NULL;
CREATE UNIQUE INDEX platform_vex_by_org ON platform_vex (org_id, name) WHERE org_id IS NOT NULL;
