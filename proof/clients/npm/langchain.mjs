// LangChain's OpenAI model against the door: node langchain.mjs URL TOKEN
import { ChatOpenAI } from '@langchain/openai'
import { HumanMessage, SystemMessage, ToolMessage } from '@langchain/core/messages'
import { report, want } from './check.mjs'

const [baseURL, apiKey] = process.argv.slice(2)
const model = new ChatOpenAI({ model: 'scripted', apiKey, configuration: { baseURL }, maxTokens: 99, streamUsage: true, maxRetries: 2 })
const r = report()
const bash = { type: 'function', function: { name: 'bash', description: 'Run a command.', parameters: { type: 'object', properties: { command: { type: 'string' } }, required: ['command'] } } }

await r.item([1, 2, 3, 4, 27], async () => {
  const a = await model.invoke([new SystemMessage('Be short.'), new HumanMessage('Say hello')])
  return want(String(a.content).startsWith('Hello') && a.response_metadata.finish_reason === 'stop', a)
})
await r.item([5, 13, 14, 15, 16, 20, 21, 22], async () => {
  let all
  for await (const chunk of await model.stream('Say hello, streamed')) all = all ? all.concat(chunk) : chunk
  return want(String(all.content).startsWith('Hello') && all.usage_metadata?.input_tokens === 11, all)
})
for (const streamed of [false, true]) {
  await r.item([6, 7, 8, 17, 18, 19, 30], async () => {
    const bound = model.bindTools([bash], { tool_choice: 'auto' })
    const messages = [new HumanMessage(`Call two tools ${streamed}`)]
    let asked
    if (streamed) for await (const chunk of await bound.stream(messages)) asked = asked ? asked.concat(chunk) : chunk
    else asked = await bound.invoke(messages)
    if (asked.tool_calls.length !== 2 || asked.tool_calls[0].args.command !== 'ls') return 'got ' + JSON.stringify(asked)
    messages.push(asked, ...asked.tool_calls.map((c, i) => new ToolMessage({ content: ['first', 'second'][i], tool_call_id: c.id })))
    const a = await bound.invoke(messages)
    return want(a.content === 'The tools said first, second', a)
  })
}
await r.item([24], async () => {
  let all = ''
  try {
    for await (const chunk of await model.stream('Be cut off')) all += chunk.content
    return 'a cut answer passes for a whole one: ' + all
  } catch (err) {
    return want(/ended in the middle/.test(err.message), String(err))
  }
})
await r.item([31, 34], async () => {
  try {
    await model.invoke('Fail in the middle')
    return 'no error'
  } catch (err) {
    return want(err.status === 400, String(err))
  }
})
await r.item([32], async () => want((await model.invoke('Be busy once, chain')).content === 'Now'))
r.end()
