// The AI SDK with its provider for OpenAI-compatible endpoints against the door: node aisdk.mjs URL TOKEN
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText, streamText, tool, jsonSchema, stepCountIs } from 'ai'
import { report, want } from './check.mjs'

const [baseURL, apiKey] = process.argv.slice(2)
const model = createOpenAICompatible({ name: 'drawbridge', baseURL, apiKey, includeUsage: true })('scripted')
const r = report()
const ran = []
const bash = tool({
  description: 'Run a command.',
  inputSchema: jsonSchema({ type: 'object', properties: { command: { type: 'string' } }, required: ['command'] }),
  execute: async ({ command }) => { ran.push(command); return command === 'ls' ? 'first' : 'second' },
})

await r.item([1, 2, 3, 4, 27], async () => {
  const a = await generateText({ model, system: 'Be short.', prompt: 'Say hello', maxOutputTokens: 99, temperature: 0.1 })
  return want(a.text.startsWith('Hello') && a.finishReason === 'stop', a.text)
})
await r.item([5, 13, 14, 15, 16, 20, 21, 22, 26], async () => {
  const s = streamText({ model, prompt: 'Think first' })
  const [text, thought, usage, finish] = [await s.text, await s.reasoningText, await s.usage, await s.finishReason]
  return want(text === 'Done' && thought === 'Let me see.' && usage.inputTokens === 11 && finish === 'stop', [text, thought, usage, finish])
})
for (const streamed of [false, true]) {
  await r.item([6, 7, 8, 17, 18, 19, 30], async () => {
    ran.length = 0
    const q = { model, prompt: `Call two tools ${streamed}`, tools: { bash }, stopWhen: stepCountIs(3) }
    const text = streamed ? await streamText(q).text : (await generateText(q)).text
    return want(text === 'The tools said first, second' && ran.join() === 'ls,pwd', [text, ran])
  })
}
await r.item([23], async () => want((await streamText({ model, prompt: 'Be slow' }).text) === 'Here I am'))
await r.item([24], async () => {
  let failed = null
  const s = streamText({ model, prompt: 'Be cut off', onError: ({ error }) => { failed = error } })
  try { await s.text } catch (err) { failed ??= err }
  return want(failed && /ended in the middle/.test(JSON.stringify(failed) + String(failed?.message)), String(failed))
})
await r.item([31, 34], async () => {
  try {
    await generateText({ model, prompt: 'Fail in the middle' })
    return 'no error'
  } catch (err) {
    return want(err.statusCode === 400 && err.isRetryable === false, String(err))
  }
})
await r.item([32], async () => want((await generateText({ model, prompt: 'Be busy once, sdk' })).text === 'Now'))
r.end()
