-- +goose Up
CREATE TABLE agents (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    role        TEXT NOT NULL,
    quarantined INTEGER NOT NULL,
    parent     TEXT NOT NULL,
    command    TEXT NOT NULL,
    root       TEXT NOT NULL,
    depth      INTEGER NOT NULL,
    api        TEXT NOT NULL,
    op_key     TEXT NOT NULL,
    external   TEXT NOT NULL,
    last_run   TEXT NOT NULL,
    repo       TEXT NOT NULL,
    ref        TEXT NOT NULL,
    url        TEXT NOT NULL,
    state      TEXT NOT NULL,
    chat_user  TEXT NOT NULL,
    trouble    TEXT NOT NULL,
    turn_seq   BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX agents_external ON agents (external) WHERE external <> '';
CREATE UNIQUE INDEX agents_chat_user ON agents (chat_user) WHERE chat_user <> '';
CREATE INDEX agents_root ON agents (root, id);
CREATE INDEX agents_parent ON agents (parent, id);
CREATE INDEX agents_state ON agents (state, id, parent);

CREATE TABLE turns (
    id          TEXT PRIMARY KEY,
    agent       TEXT NOT NULL,
    seq         BIGINT NOT NULL,
    cause       TEXT NOT NULL,
    body        TEXT NOT NULL,
    sent        TEXT NOT NULL,
    depth       INTEGER NOT NULL,
    streak      INTEGER NOT NULL,
    state       TEXT NOT NULL,
    run         TEXT NOT NULL,
    reply       TEXT NOT NULL,
    status      TEXT NOT NULL,
    trouble     TEXT NOT NULL,
    attempts    INTEGER NOT NULL,
    doubt_since BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    sent_at     BIGINT NOT NULL,
    ended_at    BIGINT NOT NULL,
    UNIQUE (agent, seq)
);
CREATE INDEX turns_open ON turns (agent, seq) WHERE state NOT IN ('replied', 'failed');
CREATE INDEX turns_state ON turns (state, id);

CREATE TABLE commands (
    id           TEXT PRIMARY KEY,
    turn         TEXT NOT NULL,
    agent        TEXT NOT NULL,
    ordinal      INTEGER NOT NULL,
    verb         TEXT NOT NULL,
    parsed       TEXT NOT NULL,
    op_key       TEXT NOT NULL UNIQUE,
    state        TEXT NOT NULL,
    code         TEXT NOT NULL,
    reason       TEXT NOT NULL,
    canonical    TEXT NOT NULL,
    api          TEXT NOT NULL,
    relay        TEXT NOT NULL,
    approval_key TEXT NOT NULL,
    approved     INTEGER NOT NULL,
    child        TEXT NOT NULL,
    outcome      TEXT NOT NULL,
    launched_at  BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    UNIQUE (turn, ordinal)
);
CREATE INDEX commands_agent ON commands (agent, id);
CREATE INDEX commands_state ON commands (state, id);
CREATE INDEX commands_open ON commands (agent) WHERE state IN ('held', 'granted', 'sending', 'confirmed', 'uncertain');
CREATE INDEX commands_launched ON commands (launched_at) WHERE child <> '';

CREATE TABLE notices (
    id         TEXT PRIMARY KEY,
    agent      TEXT NOT NULL,
    cause      TEXT NOT NULL,
    body       TEXT NOT NULL,
    untrusted  TEXT NOT NULL,
    depth      INTEGER NOT NULL,
    streak     INTEGER NOT NULL,
    quiet      INTEGER NOT NULL,
    commands   TEXT NOT NULL,
    completion TEXT NOT NULL,
    turn       TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX notices_waiting ON notices (agent, id) WHERE turn = '';
CREATE INDEX notices_turn ON notices (turn, id) WHERE turn <> '';

CREATE TABLE completions (
    id           TEXT PRIMARY KEY,
    op           TEXT NOT NULL,
    turn         TEXT NOT NULL,
    run          TEXT NOT NULL,
    status       TEXT NOT NULL,
    source       TEXT NOT NULL,
    carried_by   TEXT NOT NULL,
    delivered_at BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    UNIQUE (op, run, status)
);
CREATE INDEX completions_op ON completions (op, id);

CREATE TABLE deliveries (
    id          TEXT PRIMARY KEY,
    op          TEXT NOT NULL,
    external    TEXT NOT NULL,
    event       TEXT NOT NULL,
    status      TEXT NOT NULL,
    sent_at     TEXT NOT NULL,
    webhook_id  TEXT NOT NULL,
    headers     TEXT NOT NULL,
    body        BLOB NOT NULL,
    verdict     TEXT NOT NULL,
    received_at BIGINT NOT NULL,
    UNIQUE (op, external, event, status, sent_at)
);
CREATE INDEX deliveries_op ON deliveries (op, id);

CREATE TABLE echoes (
    agent      TEXT NOT NULL,
    key        TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (agent, key)
) WITHOUT ROWID;

CREATE TABLE approvals (
    root       TEXT NOT NULL,
    key        TEXT NOT NULL,
    until_at   BIGINT NOT NULL,
    PRIMARY KEY (root, key)
) WITHOUT ROWID;

CREATE TABLE lanes (
    lane     TEXT PRIMARY KEY,
    next_seq BIGINT NOT NULL
) WITHOUT ROWID;

-- AUTOINCREMENT: the id of work that is done never comes again, or a late
-- holder of the old row could finish the new one with its fence.
CREATE TABLE work (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    lane        TEXT NOT NULL,
    seq         BIGINT NOT NULL,
    kind        TEXT NOT NULL,
    ref         TEXT NOT NULL,
    due_at      BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    fence       BIGINT NOT NULL,
    attempts    BIGINT NOT NULL,
    woken       BIGINT NOT NULL,
    head        INTEGER NOT NULL,
    UNIQUE (lane, seq)
);
-- One head a lane; what stands behind it is in neither index, so that neither
-- a claim nor a look at the clock reads it.
CREATE UNIQUE INDEX work_head ON work (lane) WHERE head = 1;
CREATE INDEX work_ready ON work ((CASE WHEN lease_until > due_at THEN lease_until ELSE due_at END), id) WHERE head = 1;

CREATE TABLE events (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    at      BIGINT NOT NULL,
    kind    TEXT NOT NULL,
    agent   TEXT NOT NULL,
    name    TEXT NOT NULL,
    turn    TEXT NOT NULL,
    command TEXT NOT NULL,
    body    TEXT NOT NULL,
    fields  TEXT NOT NULL
);

-- +goose Down
DROP TABLE events;
DROP TABLE work;
DROP TABLE lanes;
DROP TABLE approvals;
DROP TABLE echoes;
DROP TABLE deliveries;
DROP TABLE completions;
DROP TABLE notices;
DROP TABLE commands;
DROP TABLE turns;
DROP TABLE agents;
