-- +goose Up
-- How far a subagent's task is: '' while it is open, and then waiting, failed or done.
ALTER TABLE agents ADD COLUMN task TEXT NOT NULL DEFAULT '';
-- Before, the end of a subagent's first run was its result.
UPDATE agents SET task = CASE WHEN state = 'failed' THEN 'failed' ELSE 'done' END
    WHERE command <> '' AND EXISTS (SELECT 1 FROM commands c WHERE c.id = agents.command AND c.state IN ('refused', 'failed', 'finished', 'reported'));
-- A question that was open is closed: it stayed open for good, and telling its sender now would wake it for old news.
UPDATE letters SET awaited = 0 WHERE awaited = 1 AND message IN (SELECT id FROM messages WHERE join_by = 0);
CREATE INDEX letters_awaits ON letters (sender, message, agent) WHERE awaited = 1;

-- +goose Down
DROP INDEX letters_awaits;
ALTER TABLE agents DROP COLUMN task;
