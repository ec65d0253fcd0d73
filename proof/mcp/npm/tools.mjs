// What the clients call: every tool of every set, once as it should be and once with something wrong in its arguments.
import { strict as assert } from 'node:assert';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Calls every tool as two agents of one tree. `main` and `child` are connected clients with a `call(tool, arguments)`; `id` and
 * `childID` are who they are, `round` is a word for names that must be new, `action` one that was not asked for before. It returns the names of the tools that were called.
 */
export async function everyTool({ main, child, id, childID, sibling, round, action, workspace }) {
  const called = new Set();

  /** Calls a tool well, then badly: the wrong argument must be an error of the tool, in words, and none of the protocol. */
  const use = async (who, tool, good, check, wrong, kind) => {
    called.add(tool);
    const r = await who.call(tool, good);
    const said = r.structuredContent;
    assert.notEqual(r.isError, true, `${tool}(${JSON.stringify(good)}): ${r.content?.[0]?.text}`);
    assert.equal(typeof said, 'object', `${tool} has no structured content`);
    assert(check(said), `${tool}(${JSON.stringify(good)}) answers ${JSON.stringify(said)}`);
    assert(r.content.length === 1 && r.content[0].type === 'text' && r.content[0].text, `${tool} says nothing to who reads text alone`);
    const bad = await who.call(tool, { ...good, ...wrong });
    assert.equal(bad.isError, true, `${tool} takes ${JSON.stringify(wrong)}`);
    assert.equal(bad._meta?.['drawbridge/error']?.kind, kind, `${tool} with ${JSON.stringify(wrong)}: ${bad.content?.[0]?.text}`);
    assert(bad.content[0].text.startsWith(`${kind}: `), `${tool}: ${bad.content[0].text}`);
    return said;
  };
  const misspelt = [{ no_such_argument: 1 }, 'invalid'];
  const starts = (prefix) => (text) => typeof text === 'string' && text.startsWith(prefix);
  const [agent, command, message, turn] = ['agt_', 'cmd_', 'msg_', 'trn_'].map(starts);

  // bridge
  await use(main, 'launch_agent', { repo: 'github.com/me/my-app', prompt: `Add health check ${round}.` },
    (s) => s.status === 'launched' && agent(s.agent_id) && command(s.command_id) && s.name, { repo: 'github.com/evil/x' }, 'denied');
  await use(main, 'list_agents', {}, (s) => s.you === id && s.agents.some((a) => a.agent_id === childID && a.relation === 'child'), ...misspelt);
  await use(main, 'agent_status', { agent: childID }, (s) => s.agent_id === childID && turn(s.latest_turn.turn_id), { agent: 'nobody' }, 'not_found');
  await use(main, 'run_local_action', { action }, (s) => s.status === 'requested' && command(s.command_id), { action: 'format_disk' }, 'denied');
  await use(main, 'list_allowed', {}, (s) => s.repos.includes('github.com/me/my-app') && s.actions.includes(action) && s.limits.depth === 3, ...misspelt);
  const reminder = await use(main, 'remind', { when: '2h', message: `look again, ${round}` },
    (s) => s.status === 'set' && command(s.command_id) && Date.parse(s.due) > Date.now(), { when: 7 }, 'invalid');
  await use(main, 'cancel_reminder', { reminder_id: reminder.command_id }, (s) => s.status === 'cancelled', { reminder_id: 'cmd_nothing' }, 'not_found');

  // team
  const spawned = await use(main, 'spawn_agent', { name: `spawned-${round}`, instructions: `Wait for ${round}.`, role: 'reviewer', workspace_subdir: null, repo: 'github.com/me/my-app' },
    (s) => s.status === 'created' && s.name === `spawned-${round}`, { name: `other-${round}`, workspace_subdir: '../..' }, 'invalid');
  const asked = await use(main, 'send_message', { recipient: spawned.name, text: 'Are you there?', sync: false },
    (s) => s.status === 'sent' && message(s.message_id) && s.waiting_for_reply === false, { recipient: 'nobody' }, 'not_found');
  await use(main, 'message_status', { message_id: asked.message_id }, (s) => s.receipts.length === 1 && s.receipts[0].agent_id === spawned.agent_id, { message_id: 'msg_nothing' }, 'not_found');
  await use(child, 'broadcast', { text: 'Hello, siblings.', joined: false }, (s) => s.status === 'sent' && s.recipient_count >= 1, { text: '' }, 'invalid');
  await use(main, 'check_inbox', {}, (s) => Array.isArray(s.messages), ...misspelt);
  await use(main, 'inspect_agent', { name: spawned.name }, (s) => ['idle', 'busy', 'waiting'].includes(s.state) && Array.isArray(s.recent_messages), { name: 'nobody' }, 'not_found');
  await use(child, 'complete', { result: 'All is done.' }, (s) => s.status === 'completed' && message(s.message_id), { result: '' }, 'invalid');
  await use(main, 'poke', { agent: spawned.agent_id }, (s) => ['poked', 'busy'].includes(s.status), { agent: id }, 'denied');
  await use(main, 'subscribe', { agent: spawned.agent_id, event: 'busy->idle' }, (s) => s.status === 'subscribed' && s.agent_id === spawned.agent_id, { event: 'idle->busy' }, 'invalid');
  await use(main, 'list_children', {}, (s) => s.children.some((c) => c.agent_id === spawned.agent_id), ...misspelt);

  // threads; nobody speaks for another
  const forged = (argument, who) => [{ [argument]: who }, 'denied'];
  const made = await use(main, 'create_thread', { creator_id: id, title: `Plans ${round}`, participants: [childID], initial_message: 'What now?' },
    (s) => s.data.thread.participants.length === 2 && message(s.data.initial_message_id), ...forged('creator_id', childID));
  const thread = made.data.thread.id;
  await use(child, 'threads_send_message', { sender_id: childID, thread_id: thread, content: 'This.', urgent: true },
    (s) => s.data.message.thread_id === thread && s.data.message.urgent, { recipient_id: id }, 'invalid');
  // The message wakes main, so that it may be a turn of it already and unread no more.
  await use(main, 'check_new_messages', { agent_id: id }, (s) => Number.isInteger(s.data.unread_count) && s.data.unread_count >= 0, ...forged('agent_id', childID));
  await use(main, 'get_messages', { agent_id: id, thread_id: thread, limit: 5, since: '2025-03-30T12:00:00Z' },
    (s) => s.messages.some((m) => m.content === 'This.' && m.sender_id === childID), { limit: 1.5 }, 'invalid');
  await use(main, 'broadcast_message', { sender_id: id, recipient_ids: [childID, spawned.agent_id], content: 'To both.' },
    (s) => message(s.data.message.id) && s.data.message.recipient_ids.length === 2, { recipient_ids: [] }, 'invalid');
  const file = join(workspace, `plan-${round}.txt`);
  writeFileSync(file, 'one, two');
  await use(main, 'transfer_file', { sender_id: id, recipient_id: childID, source_path: file, destination_filename: 'plan.txt', description: 'the plan' },
    (s) => s.data.size === 8 && s.data.file_name === 'plan.txt' && /^[0-9a-f]{64}$/.test(s.data.sha256), ...forged('sender_id', childID));
  await use(main, 'get_thread_details', { thread_id: thread }, (s) => s.id === thread && s.creator_id === id, { thread_id: 'nothing' }, 'not_found');
  await use(main, 'list_threads', { agent_id: id, limit: 5 }, (s) => s.threads.some((t) => t.id === thread && t.member && t.participants.length === 2), ...forged('agent_id', childID));
  await use(main, 'add_participant_to_thread', { thread_id: thread, agent_id_to_add: spawned.agent_id, inviting_agent_id: id },
    (s) => s.data.status === 'added' && s.data.thread.participants.length === 3, { agent_id_to_add: 'nobody' }, 'not_found');
  await use(main, 'remove_participant_from_thread', { thread_id: thread, agent_id_to_remove: spawned.agent_id, removing_agent_id: id },
    (s) => s.data.status === 'removed' && s.data.thread.participants.length === 2, ...forged('removing_agent_id', childID));
  await use(child, 'join_thread', { thread_id: thread, agent_id: childID }, (s) => s.data.status === 'already_participant', ...forged('agent_id', id));

  // channels
  const posted = await use(main, 'send_channel_message', { channelId: 'general', text: `Good morning, ${round}.` }, (s) => message(s.messageId), { channelId: 'nowhere' }, 'not_found');
  await use(main, 'send_dm', { targetAgentId: sibling, text: 'Psst.' }, (s) => message(s.messageId), { targetAgentId: 'nobody' }, 'not_found');
  await use(child, 'react_to_message', { messageId: posted.messageId, emoji: '👍' }, (s) => s.success === true, { messageId: 'msg_nothing' }, 'not_found');
  await use(main, 'do_nothing', {}, (s) => s.action === 'none', ...misspelt);

  // memory
  await use(main, 'update_memory', { label: `mood-${round}`, content: 'calm', if_version: 0 }, (s) => s.success === true && s.version === 1, { content: 'wild' }, 'conflict');
  await use(main, 'store_memory', { content: `The build of ${round} needs Go 1.26.`, tags: ['build'] }, (s) => typeof s.passageId === 'string' && s.passageId, { content: 7 }, 'invalid');
  await use(main, 'search_memory', { query: `build ${round}`, tags: ['build'], limit: 3 }, (s) => s.passages.length === 1 && s.passages[0].tags[0] === 'build', { limit: -1 }, 'invalid');
  return called;
}
