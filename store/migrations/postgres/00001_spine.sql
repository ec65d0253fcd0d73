-- +goose Up
CREATE TABLE agents (
    id         TEXT COLLATE "C" PRIMARY KEY,
    name       TEXT COLLATE "C" NOT NULL UNIQUE,
    role        TEXT COLLATE "C" NOT NULL,
    quarantined INTEGER NOT NULL,
    parent     TEXT COLLATE "C" NOT NULL,
    command    TEXT COLLATE "C" NOT NULL,
    root       TEXT COLLATE "C" NOT NULL,
    depth      INTEGER NOT NULL,
    api        TEXT COLLATE "C" NOT NULL,
    op_key     TEXT COLLATE "C" NOT NULL,
    external   TEXT COLLATE "C" NOT NULL,
    last_run   TEXT COLLATE "C" NOT NULL,
    repo       TEXT COLLATE "C" NOT NULL,
    ref        TEXT COLLATE "C" NOT NULL,
    url        TEXT COLLATE "C" NOT NULL,
    state      TEXT COLLATE "C" NOT NULL,
    chat_user  TEXT COLLATE "C" NOT NULL,
    trouble    TEXT COLLATE "C" NOT NULL,
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
    id          TEXT COLLATE "C" PRIMARY KEY,
    agent       TEXT COLLATE "C" NOT NULL,
    seq         BIGINT NOT NULL,
    cause       TEXT COLLATE "C" NOT NULL,
    body        TEXT COLLATE "C" NOT NULL,
    sent        TEXT COLLATE "C" NOT NULL,
    depth       INTEGER NOT NULL,
    streak      INTEGER NOT NULL,
    state       TEXT COLLATE "C" NOT NULL,
    run         TEXT COLLATE "C" NOT NULL,
    reply       TEXT COLLATE "C" NOT NULL,
    status      TEXT COLLATE "C" NOT NULL,
    trouble     TEXT COLLATE "C" NOT NULL,
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
    id           TEXT COLLATE "C" PRIMARY KEY,
    turn         TEXT COLLATE "C" NOT NULL,
    agent        TEXT COLLATE "C" NOT NULL,
    ordinal      INTEGER NOT NULL,
    verb         TEXT COLLATE "C" NOT NULL,
    parsed       TEXT COLLATE "C" NOT NULL,
    op_key       TEXT COLLATE "C" NOT NULL UNIQUE,
    state        TEXT COLLATE "C" NOT NULL,
    code         TEXT COLLATE "C" NOT NULL,
    reason       TEXT COLLATE "C" NOT NULL,
    canonical    TEXT COLLATE "C" NOT NULL,
    api          TEXT COLLATE "C" NOT NULL,
    relay        TEXT COLLATE "C" NOT NULL,
    approval_key TEXT COLLATE "C" NOT NULL,
    approved     INTEGER NOT NULL,
    child        TEXT COLLATE "C" NOT NULL,
    outcome      TEXT COLLATE "C" NOT NULL,
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
    id         TEXT COLLATE "C" PRIMARY KEY,
    agent      TEXT COLLATE "C" NOT NULL,
    cause      TEXT COLLATE "C" NOT NULL,
    body       TEXT COLLATE "C" NOT NULL,
    untrusted  TEXT COLLATE "C" NOT NULL,
    depth      INTEGER NOT NULL,
    streak     INTEGER NOT NULL,
    quiet      INTEGER NOT NULL,
    commands   TEXT COLLATE "C" NOT NULL,
    completion TEXT COLLATE "C" NOT NULL,
    turn       TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX notices_waiting ON notices (agent, id) WHERE turn = '';
CREATE INDEX notices_turn ON notices (turn, id) WHERE turn <> '';

CREATE TABLE completions (
    id           TEXT COLLATE "C" PRIMARY KEY,
    op           TEXT COLLATE "C" NOT NULL,
    turn         TEXT COLLATE "C" NOT NULL,
    run          TEXT COLLATE "C" NOT NULL,
    status       TEXT COLLATE "C" NOT NULL,
    source       TEXT COLLATE "C" NOT NULL,
    carried_by   TEXT COLLATE "C" NOT NULL,
    delivered_at BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    UNIQUE (op, run, status)
);
CREATE INDEX completions_op ON completions (op, id);

CREATE TABLE deliveries (
    id          TEXT COLLATE "C" PRIMARY KEY,
    op          TEXT COLLATE "C" NOT NULL,
    external    TEXT COLLATE "C" NOT NULL,
    event       TEXT COLLATE "C" NOT NULL,
    status      TEXT COLLATE "C" NOT NULL,
    sent_at     TEXT COLLATE "C" NOT NULL,
    webhook_id  TEXT COLLATE "C" NOT NULL,
    headers     TEXT COLLATE "C" NOT NULL,
    body        BYTEA NOT NULL,
    verdict     TEXT COLLATE "C" NOT NULL,
    received_at BIGINT NOT NULL,
    UNIQUE (op, external, event, status, sent_at)
);
CREATE INDEX deliveries_op ON deliveries (op, id);

CREATE TABLE echoes (
    agent      TEXT COLLATE "C" NOT NULL,
    key        TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (agent, key)
);

CREATE TABLE approvals (
    root       TEXT COLLATE "C" NOT NULL,
    key        TEXT COLLATE "C" NOT NULL,
    until_at   BIGINT NOT NULL,
    PRIMARY KEY (root, key)
);

CREATE TABLE lanes (
    lane     TEXT COLLATE "C" PRIMARY KEY,
    next_seq BIGINT NOT NULL
);

-- An identity: the id of work that is done never comes again, or a late
-- holder of the old row could finish the new one with its fence.
CREATE TABLE work (
    id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lane        TEXT COLLATE "C" NOT NULL,
    seq         BIGINT NOT NULL,
    kind        TEXT COLLATE "C" NOT NULL,
    ref         TEXT COLLATE "C" NOT NULL,
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
    seq     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      BIGINT NOT NULL,
    kind    TEXT COLLATE "C" NOT NULL,
    agent   TEXT COLLATE "C" NOT NULL,
    name    TEXT COLLATE "C" NOT NULL,
    turn    TEXT COLLATE "C" NOT NULL,
    command TEXT COLLATE "C" NOT NULL,
    body    TEXT COLLATE "C" NOT NULL,
    fields  TEXT COLLATE "C" NOT NULL
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
