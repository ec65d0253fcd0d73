-- +goose Up
-- Names are unique within a tree, so that no agent learns another tree's. The
-- column plain has the name. The column name stays unique as a whole: for an agent
-- that has a parent it is the name, a unit separator and the id of its root.
ALTER TABLE agents ADD COLUMN plain TEXT NOT NULL DEFAULT '';
UPDATE agents SET plain = name;
UPDATE agents SET name = name || char(31) || root WHERE parent <> '';
CREATE INDEX agents_plain ON agents (plain, id);

-- +goose Down
UPDATE agents SET name = plain;
DROP INDEX agents_plain;
ALTER TABLE agents DROP COLUMN plain;
