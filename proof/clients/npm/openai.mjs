// The official openai client against the door: node openai.mjs URL TOKEN
import OpenAI from 'openai'
import { report, want } from './check.mjs'

const [baseURL, apiKey] = process.argv.slice(2)
const client = new OpenAI({ baseURL, apiKey })
const r = report()
const tools = [{ type: 'function', function: { name: 'bash', description: 'Run a command.', parameters: { type: 'object', properties: { command: { type: 'string' } }, required: ['command'] } } }]
const user = content => [{ role: 'user', content }]
async function collect(stream) {
  const all = []
  for await (const chunk of stream) all.push(chunk)
  return all
}
const text = chunks => chunks.map(c => c.choices[0]?.delta?.content ?? '').join('')

await r.item([1, 2, 3, 4, 11, 27], async () => {
  const a = await client.chat.completions.create({
    model: 'scripted', max_tokens: 32000, temperature: 0.3, top_p: 0.9, seed: 7, unknown_field: { deep: true },
    messages: [{ role: 'developer', content: 'Be short.' }, { role: 'system', content: [{ type: 'text', text: 'Be kind.' }] }, { role: 'user', content: [{ type: 'text', text: 'Say hello' }] }],
  })
  return want(a.object === 'chat.completion' && a.choices[0].message.content.startsWith('Hello') && a.choices[0].finish_reason === 'stop', a)
})
await r.item([5, 14, 15, 16, 20, 21, 22], async () => {
  const chunks = await collect(await client.chat.completions.create({ model: 'scripted', stream: true, stream_options: { include_usage: true }, max_completion_tokens: 99, messages: user('Say hello, streamed') }))
  const usage = chunks.at(-1), end = chunks.at(-2)
  const one = new Set(chunks.map(c => `${c.id} ${c.created} ${c.model}`)).size === 1
  const open = chunks[0].choices[0].delta
  const nulls = chunks.slice(0, -2).every(c => c.choices[0].finish_reason === null)
  return want(one && open.role === 'assistant' && open.content === '' && nulls && end.choices[0].finish_reason === 'stop' && usage.choices.length === 0 && usage.usage.prompt_tokens === 11 && text(chunks).startsWith('Hello'), chunks)
})
await r.item([6, 7, 8, 17, 18, 19, 29, 30], async () => {
  const stream = client.chat.completions.stream({ model: 'scripted', tools, messages: user('Call two tools') })
  const m = (await stream.finalChatCompletion()).choices[0]
  if (m.finish_reason !== 'tool_calls' || m.message.tool_calls.length !== 2 || JSON.parse(m.message.tool_calls[1].function.arguments).command !== 'pwd') return 'got ' + JSON.stringify(m)
  const [one, two] = m.message.tool_calls
  const next = await client.chat.completions.create({
    model: 'scripted', tools, tool_choice: 'auto',
    messages: [...user('Call two tools'), { role: 'assistant', content: null, tool_calls: m.message.tool_calls }, { role: 'tool', tool_call_id: two.id, content: 'second' }, { role: 'tool', tool_call_id: one.id, content: [{ type: 'text', text: 'first' }] }],
  })
  return want(next.choices[0].message.content === 'The tools said first, second', next)
})
await r.item([23], async () => { // the answer comes behind a comment
  const chunks = await collect(await client.chat.completions.create({ model: 'scripted', stream: true, messages: user('Be slow') }))
  return want(text(chunks) === 'Here I am', chunks)
})
await r.item([24], async () => {
  try {
    const chunks = await collect(await client.chat.completions.create({ model: 'scripted', stream: true, messages: user('Be cut off') }))
    return 'a cut answer passes for a whole one: ' + JSON.stringify(chunks)
  } catch (err) {
    return want(err instanceof OpenAI.APIError && /ended in the middle/.test(err.message), String(err))
  }
})
await r.item([26], async () => {
  const chunks = await collect(await client.chat.completions.create({ model: 'scripted', stream: true, messages: user('Think first') }))
  const thought = chunks.map(c => c.choices[0]?.delta?.reasoning_content ?? '').join('')
  return want(thought === 'Let me see.' && text(chunks) === 'Done', chunks)
})
await r.item([9, 31], async () => {
  const seen = []
  for (const [body, kind, param] of [
    [{ n: 2 }, OpenAI.BadRequestError, 'n'], [{ logprobs: true }, OpenAI.BadRequestError, 'logprobs'], [{ model: 'nobody' }, OpenAI.NotFoundError, 'model'],
  ]) {
    try {
      await client.chat.completions.create({ model: 'scripted', messages: user('x'), ...body })
      seen.push('no error for ' + param)
    } catch (err) {
      if (!(err instanceof kind) || err.param !== param || !err.message) seen.push(String(err))
    }
  }
  const stranger = new OpenAI({ baseURL, apiKey: 'wrong' })
  try {
    await stranger.models.list()
    seen.push('a wrong token opens')
  } catch (err) {
    if (!(err instanceof OpenAI.AuthenticationError)) seen.push(String(err))
  }
  try {
    await client.embeddings.create({ model: 'scripted', input: 'x' })
    seen.push('embeddings are there')
  } catch (err) {
    if (!(err instanceof OpenAI.NotFoundError)) seen.push(String(err))
  }
  return want(seen.length === 0, seen)
})
await r.item([32], async () => {
  const began = Date.now()
  const a = await client.chat.completions.create({ model: 'scripted', messages: user('Be busy once') })
  return want(a.choices[0].message.content === 'Now' && Date.now() - began >= 900, a)
})
await r.item([34], async () => {
  try {
    await client.chat.completions.create({ model: 'scripted', messages: user('Fail in the middle') })
    return 'no error'
  } catch (err) {
    return want(err.status === 400, String(err))
  }
})
await r.item([35, 36], async () => {
  const headers = { 'x-session-id': 'chat-1' }
  await client.chat.completions.create({ model: 'scripted', messages: user('Say hello for a session') }, { headers })
  const a = await client.chat.completions.create({ model: 'scripted', messages: [...user('Say hello for a session'), { role: 'assistant', content: 'Hello! How can I assist you today?' }, { role: 'user', content: 'Which session?' }] }, { headers })
  return want(/^Session ses_\w+, new from 2$/.test(a.choices[0].message.content), a)
})
await r.item([39, 40], async () => {
  const ids = []
  for await (const m of client.models.list()) ids.push(m)
  const bare = new OpenAI({ baseURL: baseURL.replace(/\/v1$/, ''), apiKey })
  const one = await bare.models.retrieve('scripted')
  return want(ids.some(m => m.id === 'scripted' && m.object === 'model' && m.owned_by && m.context_length === 32768) && one.context_length === 32768, [ids, one])
})
const functions = tools.map(t => ({ type: 'function', strict: false, ...t.function }))
await r.item([41], async () => { // the library puts the answer together out of the events, and the whole answer is the same
  const stream = client.responses.stream({ model: 'scripted', instructions: 'Be short.', input: 'Think first' })
  const kinds = []
  for await (const e of stream) kinds.push(e.type)
  const a = await stream.finalResponse()
  const b = await client.responses.create({ model: 'scripted', instructions: 'Be short.', input: 'Think first' })
  const parts = x => JSON.stringify(x.output.map(({ id, ...rest }) => ({ ...rest, content: rest.content?.map(c => ({ type: c.type, text: c.text })) })))
  const good = a.status === 'completed' && a.output_text === 'Done' && a.output[0].summary[0].text === 'Let me see.' && a.usage.input_tokens === 11 && a.usage.output_tokens_details.reasoning_tokens === 0
  return want(good && parts(a) === parts(b) && kinds[0] === 'response.created' && kinds.at(-1) === 'response.completed', [kinds, a, b])
})
await r.item([42], async () => { // calls, and their outputs by previous_response_id
  const stream = client.responses.stream({ model: 'scripted', tools: functions, input: 'Call two tools' })
  const a = await stream.finalResponse()
  const calls = a.output.filter(i => i.type === 'function_call')
  if (calls.length !== 2 || JSON.parse(calls[1].arguments).command !== 'pwd') return 'got ' + JSON.stringify(a)
  const output = n => ({ type: 'function_call_output', call_id: calls[n].call_id, output: n === 0 ? 'first' : 'second' })
  const b = await client.responses.create({ model: 'scripted', tools: functions, previous_response_id: a.id, input: [output(1), output(0)] })
  const c = await client.responses.create({ model: 'scripted', tools: functions, input: [{ role: 'user', content: 'Call two tools' }, ...a.output, output(0), output(1), ...b.output, { role: 'user', content: 'Say hello again' }] })
  return want(b.output_text === 'The tools said first, second' && c.output_text.startsWith('Hello'), [b, c])
})
await r.item([43], async () => {
  const seen = []
  for (const [body, kind, param] of [[{ background: true }, OpenAI.BadRequestError, 'background'], [{ previous_response_id: 'resp_none' }, OpenAI.NotFoundError, null]]) {
    try {
      await client.responses.create({ model: 'scripted', input: 'x', ...body })
      seen.push('no error for ' + JSON.stringify(body))
    } catch (err) {
      if (!(err instanceof kind) || err.param !== param) seen.push(String(err))
    }
  }
  const cut = await client.responses.stream({ model: 'scripted', input: 'Be cut off' }).finalResponse()
  if (cut.status !== 'failed' || !/ended in the middle/.test(cut.error.message)) seen.push('a cut answer passes for a whole one: ' + JSON.stringify(cut))
  return want(seen.length === 0, seen)
})
r.end()
