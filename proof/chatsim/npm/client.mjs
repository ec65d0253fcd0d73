// The official openai client against the stand-in: a tool loop of two steps, and requests that an endpoint must refuse.
// usage: node client.mjs BASE_URL KEY
import OpenAI from 'openai';
import assert from 'node:assert/strict';

const [baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const tools = [{ type: 'function', function: { name: 'note', description: 'Notes a text.', parameters: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] } } }];
const messages = [{ role: 'system', content: 'You act by tools.' }, { role: 'user', content: 'Note two things.' }];

const first = await client.chat.completions.create({ model: 'qwen3:8b', messages, tools });
assert.equal(first.object, 'chat.completion');
assert.equal(first.choices[0].finish_reason, 'tool_calls');
assert.equal(first.choices[0].message.content, null);
const calls = first.choices[0].message.tool_calls;
assert.deepEqual(calls.map((c) => c.function.name), ['note', 'note']);
assert.equal(JSON.parse(calls[0].function.arguments).text, 'one');
assert.equal(first.usage.total_tokens, 12);

const answered = [...messages, first.choices[0].message, ...calls.map((c) => ({ role: 'tool', tool_call_id: c.id, content: '{}' }))];
const second = await client.chat.completions.create({ model: 'qwen3:8b', messages: answered, tools });
assert.equal(second.choices[0].finish_reason, 'stop');
assert.equal(second.choices[0].message.content, 'Done.');

// What real endpoints refuse.
const refused = {
  'an answer is missing': { messages: answered.slice(0, -1), tools },
  'answers in another order': { messages: [...answered.slice(0, 3), answered[4], answered[3]], tools },
  'an answer to nothing': { messages: [...messages, { role: 'tool', tool_call_id: 'call_9', content: '' }], tools },
  'two calls with one id': { messages: [...messages, { role: 'assistant', content: null, tool_calls: [calls[0], calls[0]] }, answered[3], answered[3]], tools },
  'arguments that are not JSON': { messages: [...messages, { role: 'assistant', content: null, tool_calls: [{ ...calls[0], function: { name: 'note', arguments: '{' } }] }, answered[3]], tools },
  'a tool with a bad name': { messages, tools: [{ ...tools[0], function: { ...tools[0].function, name: 'no te' } }] },
  'two tools of one name': { messages, tools: [tools[0], tools[0]] },
  'no messages': { messages: [], tools },
};
for (const [what, body] of Object.entries(refused)) {
  await assert.rejects(client.chat.completions.create({ model: 'qwen3:8b', ...body }), (err) => err instanceof OpenAI.BadRequestError, what);
}
await assert.rejects(client.chat.completions.create({ model: 'none', messages, tools }), OpenAI.NotFoundError);
await assert.rejects(new OpenAI({ baseURL, apiKey: 'sk-wrong', maxRetries: 0 }).chat.completions.create({ model: 'qwen3:8b', messages }), OpenAI.AuthenticationError);
await assert.rejects(client.chat.completions.create({ model: 'qwen3:8b', messages: [{ role: 'user', content: 'Too fast.' }] }), (err) => err instanceof OpenAI.RateLimitError && err.headers.get('retry-after') === '7');
console.log('all right');
