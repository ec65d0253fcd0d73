-- +goose Up
-- A row quotes what another row has instead of storing it again; see store/quotes.go. Rows of before have their texts whole.
-- quotes of a turn: '' stores the sent text whole, '=' says that it is the column body, ids name notices that stand in its holes.
ALTER TABLE turns ADD COLUMN quotes TEXT NOT NULL DEFAULT '';
-- earlier keeps the beginning of sent texts that a later attempt replaced: a line of JSON each.
ALTER TABLE turns ADD COLUMN earlier TEXT NOT NULL DEFAULT '';
-- 1: the untrusted text is the reply of the turn that the completion ended.
ALTER TABLE notices ADD COLUMN quotes INTEGER NOT NULL DEFAULT 0;
-- Bits: which text of its turn an event shows, and where.
ALTER TABLE events ADD COLUMN quotes INTEGER NOT NULL DEFAULT 0;

-- +goose Down
-- An older program would read texts with holes in them. This statement fails, so that nothing is lost.
INSERT INTO schema_sums (version, sum) VALUES (NULL, NULL);
