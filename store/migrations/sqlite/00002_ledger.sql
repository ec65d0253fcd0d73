-- +goose Up
ALTER TABLE agents ADD COLUMN join_policy TEXT NOT NULL DEFAULT '';
ALTER TABLE agents ADD COLUMN join_within BIGINT NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN cost BIGINT NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN unmetered INTEGER NOT NULL DEFAULT 0;
DROP INDEX agents_state;
CREATE INDEX agents_state ON agents (state, id, parent, root);

ALTER TABLE turns ADD COLUMN retry INTEGER NOT NULL DEFAULT 0;
ALTER TABLE turns ADD COLUMN joining INTEGER NOT NULL DEFAULT 0;

ALTER TABLE commands ADD COLUMN due_at BIGINT NOT NULL DEFAULT 0;

ALTER TABLE notices ADD COLUMN join_turn TEXT NOT NULL DEFAULT '';
ALTER TABLE notices ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
DROP INDEX notices_waiting;
CREATE INDEX notices_waiting ON notices (agent, id) WHERE turn = '' AND held = 0;
CREATE INDEX notices_held ON notices (join_turn) WHERE held = 1;

ALTER TABLE completions ADD COLUMN evidence TEXT NOT NULL DEFAULT '';

ALTER TABLE work ADD COLUMN failures BIGINT NOT NULL DEFAULT 0;

CREATE TABLE trees (
    root       TEXT PRIMARY KEY,
    launches   BIGINT NOT NULL,
    turns      BIGINT NOT NULL,
    tokens     BIGINT NOT NULL,
    cost       BIGINT NOT NULL,
    unmetered  BIGINT NOT NULL,
    stopped_at BIGINT NOT NULL,
    why        TEXT NOT NULL
) WITHOUT ROWID;

-- +goose Down
DROP TABLE trees;
ALTER TABLE work DROP COLUMN failures;
ALTER TABLE completions DROP COLUMN evidence;
DROP INDEX notices_held;
DROP INDEX notices_waiting;
CREATE INDEX notices_waiting ON notices (agent, id) WHERE turn = '';
ALTER TABLE notices DROP COLUMN held;
ALTER TABLE notices DROP COLUMN join_turn;
ALTER TABLE commands DROP COLUMN due_at;
ALTER TABLE turns DROP COLUMN joining;
ALTER TABLE turns DROP COLUMN retry;
DROP INDEX agents_state;
CREATE INDEX agents_state ON agents (state, id, parent);
ALTER TABLE agents DROP COLUMN unmetered;
ALTER TABLE agents DROP COLUMN cost;
ALTER TABLE agents DROP COLUMN tokens;
ALTER TABLE agents DROP COLUMN join_within;
ALTER TABLE agents DROP COLUMN join_policy;
