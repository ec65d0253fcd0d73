// The official openai client behind a wire that breaks: node cuts.mjs URL TOKEN COUNT. It prints what each question came to.
import OpenAI from 'openai'

const [baseURL, apiKey, count] = process.argv.slice(2)
const client = new OpenAI({ baseURL, apiKey })
const sleep = ms => new Promise(done => setTimeout(done, ms))

async function once(n) {
  const request = { model: 'scripted', messages: [{ role: 'user', content: `Count ${n % 2 ? 'at once ' : ''}to ${n}` }] }
  if (n % 2) return (await client.chat.completions.create(request)).choices[0].message.content
  let text = '', finish
  for await (const chunk of await client.chat.completions.create({ ...request, stream: true })) {
    text += chunk.choices[0]?.delta?.content ?? ''
    finish ??= chunk.choices[0]?.finish_reason
  }
  if (finish !== 'stop') throw new Error('the stream broke off')
  return text
}

for (let n = 0; n < Number(count); n++) {
  let answer
  for (let tries = 0; tries < 20 && answer === undefined; tries++) {
    try {
      answer = await once(n) // the client itself repeats what broke before the headers
    } catch {
      await sleep([0, 10, 100, 400][Math.floor(n / 2) % 4])
    }
  }
  console.log(`${n}: ${answer}`)
}
