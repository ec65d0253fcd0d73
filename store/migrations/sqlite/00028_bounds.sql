-- +goose Up
-- The bytes of each agent's memory, so that a write reads one row and not all of it.
CREATE TABLE memory_bytes (
    agent TEXT PRIMARY KEY,
    bytes BIGINT NOT NULL
);
INSERT INTO memory_bytes (agent, bytes)
SELECT agent, CAST(sum(n) AS BIGINT) FROM (
    SELECT agent, octet_length(content) AS n FROM block_versions
    UNION ALL SELECT agent, octet_length(content) AS n FROM passages
    UNION ALL SELECT p.agent, octet_length(tag.value) AS n FROM passages p, json_each(p.tags) AS tag
) AS held GROUP BY agent;
CREATE INDEX files_sender ON files (sender, size);
CREATE INDEX conversations_creator ON conversations (creator) WHERE kind = 'thread' AND status = 'active';

-- +goose Down
DROP INDEX conversations_creator;
DROP INDEX files_sender;
DROP TABLE memory_bytes;
