-- +goose Up

CREATE TABLE agents (
    id          TEXT PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    role        TEXT NOT NULL,
    quarantined INTEGER NOT NULL,
    parent      TEXT NOT NULL,
    command     TEXT NOT NULL,
    root        TEXT NOT NULL,
    depth       INTEGER NOT NULL,
    api         TEXT NOT NULL,
    op_key      TEXT NOT NULL,
    external    TEXT NOT NULL,
    last_run    TEXT NOT NULL,
    repo        TEXT NOT NULL,
    ref         TEXT NOT NULL,
    url         TEXT NOT NULL,
    state       TEXT NOT NULL,
    chat_user   TEXT NOT NULL,
    trouble     TEXT NOT NULL,
    turn_seq    BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    join_policy TEXT NOT NULL DEFAULT '',
    join_within BIGINT NOT NULL DEFAULT 0,
    tokens      BIGINT NOT NULL DEFAULT 0,
    cost        BIGINT NOT NULL DEFAULT 0,
    unmetered   INTEGER NOT NULL DEFAULT 0,
    -- How far a subagent's task is: '' while it is open, and then waiting, failed or done.
    task        TEXT NOT NULL DEFAULT '',
    -- Names are unique within a tree, so that no agent learns another tree's. The
    -- column plain has the name. The column name stays unique as a whole: for an agent
    -- that has a parent it is the name, a unit separator and the id of its root.
    plain       TEXT NOT NULL DEFAULT '',
    -- runtime names where an agent lives: cursor is the Cloud Agents API, whose version is in the column api.
    runtime     TEXT NOT NULL DEFAULT 'cursor',
    -- The bridge says nothing to the agent before the time not_before, because its account is limited. doing and doing_since say what an
    -- agent on a person's machine does.
    not_before  INTEGER NOT NULL DEFAULT 0,
    doing       TEXT NOT NULL DEFAULT '',
    doing_since INTEGER NOT NULL DEFAULT 0,
    -- prompt is the begin of what the agent was launched for.
    prompt      TEXT NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX agents_external ON agents (external) WHERE external <> '';
CREATE UNIQUE INDEX agents_chat_user ON agents (chat_user) WHERE chat_user <> '';
CREATE INDEX agents_root ON agents (root, id);
CREATE INDEX agents_parent ON agents (parent, id);
CREATE INDEX agents_state ON agents (state, id, parent, root);
CREATE INDEX agents_plain ON agents (plain, id);

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
    retry       INTEGER NOT NULL DEFAULT 0,
    joining     INTEGER NOT NULL DEFAULT 0,
    stopped     INTEGER NOT NULL DEFAULT 0,
    got         INTEGER NOT NULL DEFAULT 0,
    said        TEXT NOT NULL DEFAULT '',
    -- spent is what the turn took, as JSON; '' when it is unknown.
    spent       TEXT NOT NULL DEFAULT '',
    -- earlier keeps what events show of sent texts that a later attempt replaced: a line of JSON each; see store/quotes.go.
    earlier     TEXT NOT NULL DEFAULT '',
    UNIQUE (agent, seq)
);
CREATE INDEX turns_open ON turns (agent, seq) WHERE state NOT IN ('replied', 'failed');
CREATE INDEX turns_state ON turns (state, id);
CREATE INDEX turns_created ON turns (created_at);

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
    due_at       BIGINT NOT NULL DEFAULT 0,
    runtime      TEXT NOT NULL DEFAULT '',
    -- ended is the state before reported.
    ended        TEXT NOT NULL DEFAULT '',
    UNIQUE (turn, ordinal)
);
CREATE INDEX commands_agent ON commands (agent, id);
CREATE INDEX commands_state ON commands (state, id);
CREATE INDEX commands_open ON commands (agent) WHERE state IN ('held', 'granted', 'sending', 'confirmed', 'uncertain');
CREATE INDEX commands_launched ON commands (launched_at) WHERE child <> '';
CREATE INDEX commands_created ON commands (created_at) WHERE canonical <> '';

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
    created_at BIGINT NOT NULL,
    join_turn  TEXT NOT NULL DEFAULT '',
    held       INTEGER NOT NULL DEFAULT 0,
    message    TEXT NOT NULL DEFAULT '',
    item       TEXT NOT NULL DEFAULT '',
    source     TEXT NOT NULL DEFAULT '',
    author     TEXT NOT NULL DEFAULT '',
    asked      TEXT NOT NULL DEFAULT '',
    -- 1: the untrusted text is the reply of the turn that the completion ended.
    quotes     INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX notices_turn ON notices (turn, id) WHERE turn <> '';
CREATE INDEX notices_held ON notices (join_turn) WHERE held = 1;
CREATE INDEX notices_waiting ON notices (agent, quiet, id) WHERE turn = '' AND held = 0;

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
    evidence     TEXT NOT NULL DEFAULT '',
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
    digest     BLOB NOT NULL DEFAULT x'',
    source     TEXT NOT NULL DEFAULT '',
    author     TEXT NOT NULL DEFAULT '',
    place      TEXT NOT NULL DEFAULT '',
    turn       TEXT NOT NULL DEFAULT '',
    seq        BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (agent, key)
) WITHOUT ROWID;

CREATE TABLE approvals (
    root     TEXT NOT NULL,
    key      TEXT NOT NULL,
    until_at BIGINT NOT NULL,
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
    failures    BIGINT NOT NULL DEFAULT 0,
    tries       BIGINT NOT NULL DEFAULT 0,
    lost        BIGINT NOT NULL DEFAULT 0,
    away_since  BIGINT NOT NULL DEFAULT 0,
    -- share names whose share of the slots the work uses, such as a tree of agents or a relay.
    share       TEXT NOT NULL DEFAULT '',
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
    root    TEXT NOT NULL,
    turn    TEXT NOT NULL,
    command TEXT NOT NULL,
    body    TEXT NOT NULL,
    fields  TEXT NOT NULL,
    -- The attempt of the turn whose words the event shows, 0 for none; these words are not in fields.
    attempt INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX events_root ON events (root, seq);

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

CREATE TABLE relays (
    name         TEXT PRIMARY KEY,
    state        TEXT NOT NULL,
    key          TEXT NOT NULL,
    next_key     TEXT NOT NULL,
    pin          TEXT NOT NULL,
    replica      TEXT NOT NULL,
    session      TEXT NOT NULL,
    connected_at BIGINT NOT NULL,
    enrolled_at  BIGINT NOT NULL,
    seen_at      BIGINT NOT NULL,
    epoch        BIGINT NOT NULL DEFAULT 0,
    offered      BIGINT NOT NULL DEFAULT 0,
    process      TEXT NOT NULL DEFAULT '',
    stopped_at   BIGINT NOT NULL DEFAULT 0,
    copy_at      BIGINT NOT NULL DEFAULT 0,
    copy_epoch   BIGINT NOT NULL DEFAULT 0,
    accepted_at  INTEGER NOT NULL DEFAULT 0,
    outdated_at  BIGINT NOT NULL DEFAULT 0
) WITHOUT ROWID;
-- A replica looks for what it has to cut off, and for what it held before it restarted.
CREATE INDEX relays_replica ON relays (replica, state, name) WHERE replica <> '';
CREATE INDEX relays_state ON relays (state, name);

CREATE TABLE relay_offers (
    relay      TEXT NOT NULL,
    action     TEXT NOT NULL,
    approval   TEXT NOT NULL,
    bridge     INTEGER NOT NULL,
    definition TEXT NOT NULL,
    shows      TEXT NOT NULL DEFAULT '',
    approve_by TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (relay, action)
) WITHOUT ROWID;
CREATE INDEX relay_offers_action ON relay_offers (action, relay);

CREATE TABLE relay_joins (
    id         TEXT PRIMARY KEY,
    relay      TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    key        TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX relay_joins_expires ON relay_joins (expires_at);

CREATE TABLE relay_keys (
    generation BIGINT PRIMARY KEY,
    source     TEXT NOT NULL,
    created_at BIGINT NOT NULL
) WITHOUT ROWID;

CREATE TABLE replicas (
    id      TEXT PRIMARY KEY,
    seen_at BIGINT NOT NULL
) WITHOUT ROWID;
CREATE INDEX replicas_seen ON replicas (seen_at);

CREATE TABLE relay_calls (
    id         TEXT PRIMARY KEY,
    replica    TEXT NOT NULL,
    relay      TEXT NOT NULL,
    request    TEXT NOT NULL,
    ask        TEXT NOT NULL,
    state      TEXT NOT NULL,
    outcome    TEXT NOT NULL,
    created_at BIGINT NOT NULL
) WITHOUT ROWID;
CREATE INDEX relay_calls_waiting ON relay_calls (replica, id) WHERE state = 'waiting';
CREATE INDEX relay_calls_created ON relay_calls (created_at);

CREATE TABLE relay_ties (
    request    TEXT PRIMARY KEY,
    relay      TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    process    TEXT NOT NULL DEFAULT '',
    sent_at    BIGINT NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX relay_ties_created ON relay_ties (created_at);

CREATE TABLE messages (
    id           TEXT PRIMARY KEY,
    kind         TEXT NOT NULL,
    conversation TEXT NOT NULL,
    sender       TEXT NOT NULL,
    sender_name  TEXT NOT NULL,
    recipients   TEXT NOT NULL,
    body         TEXT NOT NULL,
    urgent       INTEGER NOT NULL,
    sync         INTEGER NOT NULL,
    by_bridge    INTEGER NOT NULL,
    reply_to     TEXT NOT NULL,
    join_by      BIGINT NOT NULL,
    files        TEXT NOT NULL,
    turn         TEXT NOT NULL,
    depth        INTEGER NOT NULL,
    created_at   BIGINT NOT NULL,
    edited_at    BIGINT NOT NULL,
    deleted_at   BIGINT NOT NULL
);
CREATE INDEX messages_conversation ON messages (conversation, created_at, id) WHERE conversation <> '';
CREATE INDEX messages_posts ON messages (conversation, sender, created_at) WHERE conversation <> '';

CREATE TABLE letters (
    message    TEXT NOT NULL,
    agent      TEXT NOT NULL,
    sender     TEXT NOT NULL,
    notice     TEXT NOT NULL,
    direct     INTEGER NOT NULL,
    awaited    INTEGER NOT NULL,
    answer     TEXT NOT NULL,
    offered    TEXT NOT NULL,
    read_at    BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (message, agent)
) WITHOUT ROWID;
CREATE INDEX letters_agent ON letters (agent, created_at, message);
CREATE INDEX letters_pair ON letters (agent, sender, created_at) WHERE direct = 1;
CREATE INDEX letters_awaited ON letters (agent, sender, message) WHERE awaited = 1;
CREATE INDEX letters_awaits ON letters (sender, message, agent) WHERE awaited = 1;

CREATE TABLE conversations (
    id         TEXT PRIMARY KEY,
    kind       TEXT NOT NULL,
    name       TEXT NOT NULL,
    title      TEXT NOT NULL,
    creator    TEXT NOT NULL,
    status     TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX conversations_name ON conversations (name) WHERE name <> '';
CREATE INDEX conversations_kind ON conversations (kind, id);
CREATE INDEX conversations_creator ON conversations (creator) WHERE kind = 'thread' AND status = 'active';

CREATE TABLE members (
    conversation TEXT NOT NULL,
    agent        TEXT NOT NULL,
    place        BIGINT NOT NULL,
    joined_at    BIGINT NOT NULL,
    PRIMARY KEY (conversation, agent)
) WITHOUT ROWID;
CREATE INDEX members_place ON members (conversation, place, agent);
CREATE INDEX members_agent ON members (agent, conversation);

CREATE TABLE reactions (
    message    TEXT NOT NULL,
    agent      TEXT NOT NULL,
    emoji      TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (message, agent, emoji)
) WITHOUT ROWID;

CREATE TABLE files (
    id          TEXT PRIMARY KEY,
    message     TEXT NOT NULL,
    sender      TEXT NOT NULL,
    recipient   TEXT NOT NULL,
    name        TEXT NOT NULL,
    path        TEXT NOT NULL,
    size        BIGINT NOT NULL,
    sha256      TEXT NOT NULL,
    description TEXT NOT NULL,
    created_at  BIGINT NOT NULL
);
CREATE INDEX files_sender ON files (sender, size);

CREATE TABLE blocks (
    agent      TEXT NOT NULL,
    label      TEXT NOT NULL,
    version    INTEGER NOT NULL,
    content    TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (agent, label)
);

CREATE TABLE block_versions (
    agent      TEXT NOT NULL,
    label      TEXT NOT NULL,
    version    INTEGER NOT NULL,
    content    TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (agent, label, version)
);

-- n names a row to the index.
CREATE TABLE passages (
    n          INTEGER PRIMARY KEY AUTOINCREMENT,
    id         TEXT NOT NULL UNIQUE,
    agent      TEXT NOT NULL,
    seq        BIGINT NOT NULL,
    content    TEXT NOT NULL,
    tags       TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (agent, seq)
);

-- What is indexed are words that package search made, one blank between each;
-- to the tokenizer named ascii every character beyond ASCII belongs to a word,
-- so that it cuts nothing more. The texts themselves are in passages alone.
CREATE VIRTUAL TABLE passage_index USING fts5(terms, content='', contentless_delete=1, tokenize='ascii');

CREATE TABLE door_tokens (
    id         TEXT PRIMARY KEY,
    agent      TEXT NOT NULL,
    hash       TEXT NOT NULL UNIQUE,
    generation INTEGER NOT NULL,
    created_at BIGINT NOT NULL,
    last_used  BIGINT NOT NULL,
    revoked_at BIGINT NOT NULL,
    -- client names the program that a token was made for; '' for none in particular.
    client     TEXT NOT NULL DEFAULT ''
);
CREATE INDEX door_tokens_agent ON door_tokens (agent, id);

CREATE TABLE run_messages (
    turn    TEXT NOT NULL,
    seq     BIGINT NOT NULL,
    kind    TEXT NOT NULL,
    name    TEXT NOT NULL,
    call_id TEXT NOT NULL,
    payload TEXT NOT NULL,
    at      BIGINT NOT NULL,
    PRIMARY KEY (turn, seq),
    UNIQUE (turn, call_id, kind)
);

CREATE TABLE watches (
    agent      TEXT NOT NULL,
    watched    TEXT NOT NULL,
    after_seq  BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (agent, watched)
);

CREATE TABLE done_once (
    agent      TEXT NOT NULL,
    word       TEXT NOT NULL,
    digest     TEXT NOT NULL,
    result     TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (agent, word)
);

-- The last yes of a person for each target in a tree of agents: what was shown, as JSON.
CREATE TABLE yeses (
    root   TEXT NOT NULL,
    target TEXT NOT NULL,
    effect TEXT NOT NULL,
    at     BIGINT NOT NULL,
    PRIMARY KEY (root, target)
);

-- What runs told that were found after the database was put back.
CREATE TABLE told (
    agent TEXT NOT NULL,
    item  TEXT NOT NULL,
    turn  TEXT NOT NULL,
    PRIMARY KEY (agent, item)
);

-- The operator's word on runs that nobody can read; one row at most.
CREATE TABLE restored (
    id   INTEGER PRIMARY KEY,
    told INTEGER NOT NULL,
    at   BIGINT NOT NULL
);

-- bridge_facts holds what a bridge must find again about itself, by name.
CREATE TABLE bridge_facts (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

-- The bytes of each agent's memory, so that a write reads one row and not all of it.
CREATE TABLE memory_bytes (
    agent TEXT PRIMARY KEY,
    bytes BIGINT NOT NULL
);

-- machine_questions are the requests about which a person at a relay's machine is asked, as the relay said last.
CREATE TABLE machine_questions (
    request  TEXT PRIMARY KEY,
    relay    TEXT NOT NULL,
    since_at BIGINT NOT NULL,
    until_at BIGINT NOT NULL
) WITHOUT ROWID;
CREATE INDEX machine_questions_relay ON machine_questions (relay);
CREATE INDEX machine_questions_until ON machine_questions (until_at);

-- The operator's page: one-time links and sessions. hash is made from the secret, which is kept nowhere.
CREATE TABLE page_passes (
    hash    TEXT PRIMARY KEY,
    made_at INTEGER NOT NULL,
    ends_at INTEGER NOT NULL
);

-- The OpenAI-compatible door: who may come in, conversations, the turns of each, the calls of the callers' tools, and what a backend keeps.
CREATE TABLE openai_tokens (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    hash       TEXT NOT NULL,
    models     TEXT NOT NULL,
    budget     INTEGER NOT NULL,
    per_minute INTEGER NOT NULL,
    commands   TEXT NOT NULL,
    speaks_for TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    last_used  INTEGER NOT NULL,
    revoked_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX openai_tokens_hash ON openai_tokens (hash);
CREATE UNIQUE INDEX openai_tokens_name ON openai_tokens (name) WHERE revoked_at = 0;

CREATE TABLE openai_sessions (
    id         TEXT PRIMARY KEY,
    token      TEXT NOT NULL,
    client_key TEXT NOT NULL,
    model      TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    used_at    INTEGER NOT NULL
);
CREATE INDEX openai_sessions_key ON openai_sessions (token, client_key, used_at) WHERE client_key <> '';
CREATE INDEX openai_sessions_used ON openai_sessions (used_at);

CREATE TABLE openai_turns (
    id         TEXT PRIMARY KEY,
    session    TEXT NOT NULL,
    token      TEXT NOT NULL,
    model      TEXT NOT NULL,
    state      TEXT NOT NULL,
    client_key TEXT NOT NULL,
    body       TEXT NOT NULL,
    before_sum TEXT NOT NULL,
    after_sum  TEXT NOT NULL,
    ref        TEXT NOT NULL,
    holder     TEXT NOT NULL,
    held_until INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    broken_at  INTEGER NOT NULL,
    ended_at   INTEGER NOT NULL,
    had_at     INTEGER NOT NULL,
    answer     BLOB,
    tokens     INTEGER NOT NULL,
    version    INTEGER NOT NULL
);
CREATE UNIQUE INDEX openai_turns_key ON openai_turns (token, client_key) WHERE client_key <> '';
CREATE INDEX openai_turns_body ON openai_turns (token, body, started_at) WHERE had_at = 0 AND client_key = '';
CREATE INDEX openai_turns_after ON openai_turns (token, after_sum, started_at) WHERE after_sum <> '';
CREATE INDEX openai_turns_started ON openai_turns (token, started_at);
CREATE INDEX openai_turns_open ON openai_turns (held_until) WHERE ended_at = 0;
CREATE INDEX openai_turns_session ON openai_turns (session, started_at);
CREATE INDEX openai_turns_ended ON openai_turns (ended_at) WHERE ended_at > 0;

CREATE TABLE openai_calls (
    id        TEXT PRIMARY KEY,
    turn      TEXT NOT NULL,
    upstream  TEXT NOT NULL,
    name      TEXT NOT NULL,
    arguments BLOB,
    state     TEXT NOT NULL,
    result    BLOB,
    seq       INTEGER NOT NULL
);
CREATE INDEX openai_calls_turn ON openai_calls (turn, seq);

CREATE TABLE openai_state (
    session TEXT NOT NULL,
    name    TEXT NOT NULL,
    value   BLOB NOT NULL,
    put_at  INTEGER NOT NULL,
    PRIMARY KEY (session, name)
);
CREATE INDEX openai_state_put ON openai_state (put_at);
