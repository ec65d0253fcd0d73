-- +goose Up
-- runtime names where an agent lives, and api is the version of the Cloud Agents API alone. Both stood in api before: a version,
-- or the name of another runtime. The runtime of the Cloud Agents API is named cursor. A command has none before its agent is made.
ALTER TABLE agents ADD COLUMN runtime TEXT COLLATE "C" NOT NULL DEFAULT 'cursor';
UPDATE agents SET runtime = api, api = '' WHERE api NOT IN ('v0', 'v1', '');
ALTER TABLE commands ADD COLUMN runtime TEXT COLLATE "C" NOT NULL DEFAULT '';
UPDATE commands SET runtime = 'cursor' WHERE child <> '' AND api IN ('v0', 'v1');
UPDATE commands SET runtime = api, api = '' WHERE api NOT IN ('v0', 'v1', '');

-- +goose Down
UPDATE agents SET api = runtime WHERE api = '' AND runtime <> 'cursor';
ALTER TABLE agents DROP COLUMN runtime;
UPDATE commands SET api = runtime WHERE api = '' AND runtime NOT IN ('', 'cursor');
ALTER TABLE commands DROP COLUMN runtime;
